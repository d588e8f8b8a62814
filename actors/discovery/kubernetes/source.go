package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"loadstar/actors/discovery"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Run says which pods are workers until ctx ends. It is to be run as a source.
func (c *Client) Run(o Options) func(context.Context, *discovery.Source) {
	if o.WatchFor <= 0 {
		o.WatchFor = defaultWatchFor
	}
	if o.grace <= 0 {
		o.grace = watchGrace
	}
	if o.maxPods <= 0 {
		o.maxPods = maxPods
	}
	return func(ctx context.Context, s *discovery.Source) {
		pods := &pods{opts: &o, source: s, at: make(map[string]discovery.Worker)}
		l := &lister{client: c, opts: &o, source: s}
		r := cache.NewReflectorWithOptions(&cache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}, &pod{}, pods,
			cache.ReflectorOptions{Name: "workers", TypeDescription: "Pod", Backoff: o.backoff})
		r.RunWithContext(ctx)
	}
}

// lister asks the API server on behalf of a reflector, and tells the source how that
// went.
type lister struct {
	client *Client
	opts   *Options
	source *discovery.Source
	listed int // pods in the pages of the list that there have been
}

func (l *lister) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.LabelSelector = l.opts.Selector
	limited, cancel := context.WithTimeout(ctx, responseLimit)
	defer cancel()
	all := &podList{}
	err := l.client.rest.Get().Namespace(l.opts.Namespace).Resource("pods").VersionedParams(&o, metav1.ParameterCodec).Do(limited).Into(all)
	if o.Continue == "" {
		l.listed = 0
	}
	l.listed += len(all.Items)
	if err == nil && l.listed > l.opts.maxPods {
		err = fmt.Errorf("there are more than %d", l.opts.maxPods)
	}
	if err != nil {
		l.failed(ctx, err)
		return nil, err
	}
	return all, nil
}

// watch opens a watch. One that the server doesn't end in time is ended here: a
// connection may be dead and not look so.
func (l *lister) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.Watch, o.AllowWatchBookmarks = l.opts.Selector, true, true
	seconds := int64(max(1, l.opts.WatchFor/time.Second))
	o.TimeoutSeconds = &seconds
	limited, cancel := context.WithTimeout(ctx, l.opts.WatchFor+l.opts.grace)
	w, err := l.client.rest.Get().Namespace(l.opts.Namespace).Resource("pods").VersionedParams(&o, metav1.ParameterCodec).Watch(limited)
	if err != nil {
		cancel()
		if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else it is too old to list by a watch, and is asked otherwise
			l.failed(ctx, err)
		}
		return nil, err
	}
	l.source.Alive()
	observed := &observedWatch{inner: w, events: make(chan watch.Event), cancel: cancel}
	go func() {
		observed.pass(limited, func(e watch.Event) {
			if e.Type == watch.Error {
				l.failed(ctx, apierrors.FromObject(e.Object))
			}
		})
		if err := limited.Err(); errors.Is(err, context.DeadlineExceeded) {
			l.failed(ctx, err)
		}
	}()
	return observed, nil
}

// failed tells the source of an error, but for those that are in the course of
// things: a server may forget how far a watch was.
func (l *lister) failed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.EOF):
		return
	}
	l.source.Fail(l.explain(err))
}

// explain says what is wrong in words that don't change from one attempt to the next.
func (l *lister) explain(err error) error {
	where := "namespace " + l.opts.Namespace
	if l.opts.Namespace == "" {
		where = "all namespaces"
	}
	var op *net.OpError
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server %s does not accept the credentials: %w", l.client.host, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("pods of %s may not be read: %w; grant get, list and watch, or give --service-discovery-namespace", where, err)
	case errors.As(err, &op):
		return fmt.Errorf("no connection to the API server %s: %w", l.client.host, op.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server %s does not answer", l.client.host)
	default:
		return fmt.Errorf("pods of %s are not known: %w", where, err)
	}
}
