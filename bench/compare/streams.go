package compare

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"loadstar/bench/load"
)

const (
	rampAtOnce   = 32 // streams that are being opened
	rampTimeout  = time.Minute
	slowPace     = 1000 // ms between events where memory is measured
	fastPace     = 20   // ms where chunks are
	chunkStreams = 200
)

// streams are open streams through a router.
type streams struct {
	conns  []net.Conn
	events atomic.Int64
	done   sync.WaitGroup
}

// open opens n streams whose worker sends an event each so many milliseconds,
// and returns when each has had its first.
func open(ctx context.Context, r *running, n, pace int) (*streams, error) {
	ctx, cancel := context.WithTimeout(ctx, rampTimeout)
	defer cancel()
	s := &streams{}
	chat := load.Chat{Model: "null", Bytes: 200, Stream: true, Start: askPace + strconv.Itoa(pace) + "]"}
	begun, ended := make(chan struct{}, n), make(chan struct{}, n)
	opening := 0
	wait := func() error {
		select {
		case <-begun:
			opening--
			return nil
		case <-ended:
			return fmt.Errorf("a stream ended when %d were open", len(s.conns))
		case <-ctx.Done():
			return fmt.Errorf("%d of %d streams opened: %w", len(s.conns)-opening, n, ctx.Err())
		}
	}
	for range n {
		c, err := dial(r.address, chat)
		if err != nil {
			s.close()
			return nil, err
		}
		s.conns = append(s.conns, c)
		opening++
		s.done.Go(func() {
			readEvents(c, &s.events, func() { begun <- struct{}{} })
			ended <- struct{}{}
		})
		for opening >= rampAtOnce {
			if err := wait(); err != nil {
				s.close()
				return nil, err
			}
		}
	}
	for opening > 0 {
		if err := wait(); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *streams) close() {
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.done.Wait()
}

// memoryPerStream measures what an open stream takes, and what n of them cost
// with an event a second each.
func memoryPerStream(ctx context.Context, r *running, n int, lasts time.Duration, round int) ([]Sample, error) {
	before, err := r.memory()
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, r, n, slowPace)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := load.Pause(ctx, slowPace*time.Millisecond); err != nil {
		return nil, err
	}
	used, err := r.during(func() error { return load.Pause(ctx, lasts) })
	if err != nil {
		return nil, err
	}
	after, err := r.memory()
	if err != nil {
		return nil, err
	}
	sample := Sample{Router: r.peer.name, Round: round, Requests: uint64(n)}
	memory, cpu := sample, sample
	memory.Metric, memory.Value = StreamKB, (after-before)/1000/float64(n)
	cpu.Metric, cpu.Value = StreamCPU, 100*float64(used)/float64(lasts)
	return []Sample{memory, cpu}, nil
}

// cpuPerChunk measures what a chunk costs that comes alone.
func cpuPerChunk(ctx context.Context, r *running, lasts time.Duration, round int) ([]Sample, error) {
	s, err := open(ctx, r, chunkStreams, fastPace)
	if err != nil {
		return nil, err
	}
	defer s.close()
	events := s.events.Load()
	used, err := r.during(func() error { return load.Pause(ctx, lasts) })
	if err != nil {
		return nil, err
	}
	events = s.events.Load() - events
	sample := Sample{Metric: ChunkCPU, Router: r.peer.name, Round: round, Requests: uint64(events)}
	if events == 0 {
		sample.Note = "no event came"
		return []Sample{sample}, nil
	}
	sample.Value = micros(used) / float64(events)
	return []Sample{sample}, nil
}
