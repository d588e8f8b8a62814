package dns

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resolver answers as it is told: "A A ..." with addresses, "T:P ..." with SRV
// records, or an error.
type resolver struct {
	mu     sync.Mutex
	answer string
	err    error
	asked  []string
}

func (r *resolver) is(answer string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.err = answer, err
}

// ask notes a question and gives the answer.
func (r *resolver) ask(question string) (answer []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, question)
	return strings.Fields(r.answer), r.err
}

func (r *resolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	answer, err := r.ask(network + " " + host)
	var all []netip.Addr
	for _, a := range answer {
		if a == "hang" {
			<-ctx.Done()
			return nil, &net.DNSError{Err: ctx.Err().Error(), Name: host, IsTimeout: true}
		}
		all = append(all, netip.MustParseAddr(a))
	}
	return all, err
}

func (r *resolver) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	answer, err := r.ask("srv " + service + proto + name)
	var all []*net.SRV
	for _, a := range answer {
		host, port, _ := net.SplitHostPort(a)
		rec := &net.SRV{Target: host}
		_, _ = fmt.Sscan(port, &rec.Port)
		all = append(all, rec)
	}
	return "", all, err
}

type fleet struct {
	mu  sync.Mutex
	has map[string]discovery.Worker
}

func (f *fleet) Bring(w discovery.Worker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has[w.URL] = w
	return nil
}

func (f *fleet) Drain(w discovery.Worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.has, w.URL)
}

func (f *fleet) shown() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(f.has)), " "), "http://", "")
}

var (
	notFound = &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}
	servfail = &net.DNSError{Err: "read udp 10.0.0.1:4711->10.0.0.2:53: connection refused", Name: "x", IsTemporary: true}
)

// TestAnswers plays one answer after another, each for one round.
func TestAnswers(t *testing.T) {
	type round struct {
		answer string
		err    error
		want   string
	}
	for _, c := range []struct {
		name   string
		query  string
		rounds []round
		errors uint64
		asked  string
	}{
		{"addresses", "vllm.prod:8000", []round{
			{"10.0.0.2 10.0.0.1", nil, "10.0.0.1:8000 10.0.0.2:8000"},
			{"10.0.0.1 fd00::1 ::ffff:10.0.0.3", nil, "10.0.0.1:8000 10.0.0.2:8000 10.0.0.3:8000 [fd00::1]:8000"},
		}, 0, "ip vllm.prod"},
		{"one that is missing leaves after three answers", "a:1", []round{
			{"10.0.0.1 10.0.0.2", nil, "10.0.0.1:1 10.0.0.2:1"},
			{"10.0.0.1", nil, "10.0.0.1:1 10.0.0.2:1"},
			{"10.0.0.1", nil, "10.0.0.1:1 10.0.0.2:1"},
			{"10.0.0.1", nil, "10.0.0.1:1"},
			{"10.0.0.2", nil, "10.0.0.1:1 10.0.0.2:1"},
		}, 0, "ip a"},
		{"some of them at a time", "a:1", []round{
			{"10.0.0.1 10.0.0.2", nil, "10.0.0.1:1 10.0.0.2:1"},
			{"10.0.0.2 10.0.0.3", nil, "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"},
			{"10.0.0.3 10.0.0.1", nil, "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"},
			{"10.0.0.2 10.0.0.3", nil, "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"},
			{"10.0.0.1 10.0.0.3", nil, "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"},
		}, 0, "ip a"},
		{"no answer changes nothing", "a:1", []round{
			{"10.0.0.1", nil, "10.0.0.1:1"},
			{"", notFound, "10.0.0.1:1"},
			{"", servfail, "10.0.0.1:1"},
			{"hang", nil, "10.0.0.1:1"},
			{"", nil, "10.0.0.1:1"},
			{"", notFound, "10.0.0.1:1"},
			{"10.0.0.1 10.0.0.2", nil, "10.0.0.1:1 10.0.0.2:1"},
		}, 5, "ip a"},
		{"a service", "_http._tcp.vllm.", []round{
			{"vllm-0.vllm.:8000 VLLM-1.vllm.:8001", nil, "vllm-0.vllm:8000 vllm-1.vllm:8001"},
			{"vllm-0.vllm.:8000 bad/name:1", nil, "vllm-0.vllm:8000 vllm-1.vllm:8001"},
			{"vllm-0.vllm.:0", nil, "vllm-0.vllm:8000 vllm-1.vllm:8001"},
			{"", notFound, "vllm-0.vllm:8000 vllm-1.vllm:8001"},
		}, 3, "srv _http._tcp.vllm"},
		{"a service that says it is none", "_http._tcp.vllm", []round{
			{"a:1", nil, "a:1"}, {".:0", nil, "a:1"}, {".:0", nil, "a:1"}, {".:0", nil, ""},
		}, 0, "srv _http._tcp.vllm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, err := ParseQuery(c.query)
				if err != nil {
					t.Fatal(err)
				}
				f, r := &fleet{has: make(map[string]discovery.Worker)}, &resolver{}
				r.is(c.rounds[0].answer, c.rounds[0].err)
				rec := discovery.New(f, discovery.Options{})
				defer rec.Close()
				rec.Run("dns", Run(q, Options{Roles: actors.RolesOf(actors.Decode), Every: 10 * time.Second, Resolver: r}))
				for i, round := range c.rounds {
					if i > 0 {
						r.is(round.answer, round.err)
						time.Sleep(10 * time.Second)
					}
					if round.answer == "hang" {
						time.Sleep(limit)
					}
					synctest.Wait()
					if got := f.shown(); got != round.want {
						t.Errorf("answer %d: workers %q, want %q", i, got, round.want)
					}
				}
				for _, w := range f.has {
					if w.Roles != actors.RolesOf(actors.Decode) || w.Cost != 1 {
						t.Errorf("got %+v, want a decode worker", w)
					}
				}
				if got := rec.View()[0].Errors; got != c.errors {
					t.Errorf("%d errors, want %d", got, c.errors)
				}
				if got := slices.Compact(r.asked); len(got) != 1 || got[0] != c.asked {
					t.Errorf("asked %q, want %q", got, c.asked)
				}
			})
		})
	}
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{notFound, "the name is not known or has no records"},
		{servfail, "the resolver fails: connection refused"},
		{&net.DNSError{Err: "server misbehaving"}, "the resolver fails: server misbehaving"},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, "the resolver does not answer in time"},
		{context.Canceled, "context canceled"},
	} {
		if got := plain(c.err).Error(); got != c.want {
			t.Errorf("%v is told as %q, want %q", c.err, got, c.want)
		}
	}
}

func TestParseQuery(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // empty: refused
	}{
		{"vllm:8000", "vllm:8000"},
		{"vllm.prod.svc.cluster.local.:8000", "vllm.prod.svc.cluster.local.:8000"},
		{"10.0.0.1:80", "10.0.0.1:80"},
		{"_http._tcp.vllm", "_http._tcp.vllm"},
		{"", ""},
		{"vllm", ""},
		{"vllm:0", ""},
		{"vllm:x", ""},
		{"vllm:70000", ""},
		{":80", ""},
		{"a..b:80", ""},
		{"a b:80", ""},
		{"_http", ""},
		{"_http.tcp.vllm", ""},
		{"_http._tcp.", ""},
		{"_http._tcp.vllm:80", ""},
		{strings.Repeat("a", 254) + ":80", ""},
	} {
		q, err := ParseQuery(c.text)
		if got := q.String(); (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("ParseQuery(%q) = %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}
