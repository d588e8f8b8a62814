package compare

import (
	"context"
	"errors"
	"time"

	"loadstar/bench/load"
)

// cell is one kind of request.
type cell struct {
	name        string
	chat        load.Chat
	connections int
}

// cells are the kinds of requests whose cost is measured.
var cells = []cell{
	{"200 B", load.Chat{Model: "null", Bytes: 200}, 32},
	{"200 B, 16-token stream", load.Chat{Model: "null", Bytes: 200, Stream: true}, 32},
	{"20 kB", load.Chat{Model: "null", Bytes: 20_000}, 32},
	{"20 kB, 16-token stream", load.Chat{Model: "null", Bytes: 20_000, Stream: true}, 32},
	{"1 MB", load.Chat{Model: "null", Bytes: 1_000_000}, 8},
}

const (
	warmUp    = 300 * time.Millisecond
	shortWarm = 100 * time.Millisecond
)

var errNoAnswer = errors.New("no request of the load was answered")

// cost measures CPU per request, and requests a second, of one cell.
func cost(ctx context.Context, r *running, c cell, lasts time.Duration, round int) ([]Sample, error) {
	cfg := load.Config{Source: c.chat.Same(), Connections: c.connections, Duration: warmUp, Timeout: 10 * time.Second}
	if _, _, err := r.spent(ctx, cfg); err != nil {
		return nil, err
	}
	cfg.Duration = lasts
	report, cpu, err := r.spent(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := Sample{Router: r.peer.name, Round: round, Requests: report.Requests, Failed: report.Failed()}
	if report.OK == 0 {
		return nil, errNoAnswer
	}
	s.Busy = cpu.Seconds() / report.Seconds
	perRequest, rate := s, s
	perRequest.Metric, perRequest.Value = CPUPrefix+c.name, micros(cpu)/float64(report.Requests)
	rate.Metric, rate.Value = RatePrefix+c.name, report.PerSecond
	return []Sample{perRequest, rate}, nil
}

// alone measures times at concurrency 1 at a URL.
func alone(ctx context.Context, url string, lasts time.Duration) (*load.Report, error) {
	cfg := load.Config{URL: url, Source: cells[0].chat.Same(), Connections: 1, Duration: shortWarm, Timeout: 10 * time.Second}
	if _, err := load.Run(ctx, cfg); err != nil {
		return nil, err
	}
	cfg.Duration = lasts
	report, err := load.Run(ctx, cfg)
	if err == nil && report.OK == 0 {
		err = errors.Join(errNoAnswer, ctx.Err())
	}
	return report, err
}

// latencies are the samples of a report beside that of no router, or of the latter
// itself if direct is nil.
func latencies(name string, round int, report, direct *load.Report) []Sample {
	var base load.Summary
	if direct != nil {
		base = direct.Total
	}
	sample := func(metric string, value float64) Sample {
		return Sample{Metric: metric, Router: name, Round: round, Value: value, Requests: report.Requests, Failed: report.Failed()}
	}
	mean := sample(LatencyMean, report.Total.Mean-base.Mean)
	mean.Points = report.Total.Points
	return []Sample{mean, sample(LatencyP50, report.Total.P50-base.P50), sample(LatencyP99, report.Total.P99-base.P99)}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
