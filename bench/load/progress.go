package load

import (
	"fmt"
	"strings"
	"time"
)

const (
	progressEvery = 500 * time.Millisecond
	barCells      = 30
)

// showProgress draws a line again and again until the function that it returns
// is called.
func (rec *recorder) showProgress(cfg Config) (stop func()) {
	if cfg.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(cfg.Progress, "\r%s", rec.line(cfg))
			case <-done:
				fmt.Fprintf(cfg.Progress, "\r%s\n", rec.line(cfg))
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// line says how things stand.
func (rec *recorder) line(cfg Config) string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	at := time.Since(rec.start)
	part := 0.0
	if cfg.Duration > 0 {
		part = float64(at) / float64(cfg.Duration)
	}
	if cfg.Requests > 0 {
		part = max(part, float64(rec.ended)/float64(cfg.Requests))
	}
	full := int(min(part, 1) * barCells)
	return fmt.Sprintf("[%s%s] %5.1f s  %d ok  %d failed  %d unsent  %d open  first token p50 %.2f ms  p99 %.2f ms ",
		strings.Repeat("#", full), strings.Repeat(".", barCells-full), at.Seconds(),
		rec.fates[ok], rec.ended-rec.fates[ok], rec.notSent, rec.open,
		float64(rec.first.ValueAtPercentile(50))/1e6, float64(rec.first.ValueAtPercentile(99))/1e6)
}
