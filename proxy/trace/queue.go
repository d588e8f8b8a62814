package trace

import (
	"context"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds of the spans that wait to be sent.
const (
	queueSpans = 2048            // that wait; some MiB at most
	batchSpans = 512             // that are sent together
	batchDelay = time.Second     // see queue.delay
	sendWithin = 5 * time.Second // for a batch, all tries together
)

// queue holds spans that have ended until its goroutine has sent them. It implements
// sdk.SpanProcessor.
type queue struct {
	spans    chan sdk.ReadOnlySpan // queueSpans, see there
	closing  chan struct{}         // closed when only what waits is to be sent yet
	done     chan struct{}         // closed when nothing is sent any more
	ctx      context.Context       // of what is being sent
	cancel   context.CancelFunc
	exporter *exporter
	delay    time.Duration // for which the first of a batch waits for others
	log      *slog.Logger
	down     bool // the collector, as far as the log has been told; the loop's

	exported, dropped, failed *metrics.Counter
}

func newQueue(e *exporter, delay time.Duration, set *metrics.Set, log *slog.Logger) *queue {
	q := &queue{
		spans: make(chan sdk.ReadOnlySpan, queueSpans), closing: make(chan struct{}), done: make(chan struct{}), exporter: e, delay: delay, log: log,
		exported: set.NewCounter(`loadstar_trace_spans_total{result="exported"}`),
		dropped:  set.NewCounter(`loadstar_trace_spans_total{result="dropped"}`),
		failed:   set.NewCounter("loadstar_trace_export_errors_total"),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.loop()
	return q
}

// OnStart implements sdk.SpanProcessor.
func (*queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd queues a span, or drops it: whoever ends a span never waits.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case <-q.done:
		q.dropped.Inc()
		return
	default:
	}
	select {
	case q.spans <- s:
	default:
		q.dropped.Inc()
	}
}

// ForceFlush implements sdk.SpanProcessor. Nobody calls it: Shutdown sends what waits.
func (*queue) ForceFlush(context.Context) error { return nil }

// Shutdown sends what waits, as long as ctx lasts. It is called once.
func (q *queue) Shutdown(ctx context.Context) error {
	close(q.closing)
	defer q.cancel()
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		q.cancel()
		<-q.done
		return ctx.Err()
	}
}

// loop sends batches until Shutdown, and then what is left.
func (q *queue) loop() {
	defer q.exporter.close()
	defer close(q.done)
	batch := make([]sdk.ReadOnlySpan, 0, batchSpans)
	for open := true; open; {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
			batch, open = q.gather(batch)
		case <-q.closing:
			open = false
		}
		if !open {
			break
		}
		q.send(batch)
		batch = forget(batch)
	}
	for {
		batch = q.fill(batch)
		if len(batch) == 0 {
			return
		}
		q.send(batch)
		batch = forget(batch)
	}
}

// gather waits for the rest of a batch. It reports false if the queue is closing.
func (q *queue) gather(batch []sdk.ReadOnlySpan) (_ []sdk.ReadOnlySpan, open bool) {
	late := time.NewTimer(q.delay)
	defer late.Stop()
	for len(batch) < batchSpans {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		case <-late.C:
			return batch, true
		case <-q.closing:
			return batch, false
		}
	}
	return batch, true
}

// fill adds to a batch what waits.
func (q *queue) fill(batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	for len(batch) < batchSpans {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// forget empties a batch and lets go of what was in it.
func forget(batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	clear(batch)
	return batch[:0]
}

// send sends a batch. That the collector can't be told is logged once, and once that
// it can be again.
func (q *queue) send(batch []sdk.ReadOnlySpan) {
	ctx, cancel := context.WithTimeout(q.ctx, sendWithin)
	defer cancel()
	rejected, err := q.exporter.export(ctx, batch, q.closing)
	rejected = min(rejected, len(batch))
	if err != nil {
		q.failed.Inc()
		q.dropped.Add(len(batch))
		if !q.down {
			q.down = true
			q.log.Warn("the collector takes no traces: they are dropped until it does", "endpoint", q.exporter.to, "error", err)
		}
		return
	}
	q.exported.Add(len(batch) - rejected)
	q.dropped.Add(rejected)
	if q.down {
		q.down = false
		q.log.Info("the collector takes traces again", "endpoint", q.exporter.to)
	}
}
