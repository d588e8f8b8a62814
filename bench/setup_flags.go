package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"loadstar/bench/workload"
)

// setupFlags say what a workload and its workers are like, live or simulated.
func setupFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: "rate", Usage: "requests a second of a synthetic workload", DefaultText: "80, of unique and mixed 60"},
		&cli.Float64Flag{Name: "speed", Usage: "how much faster requests come", Value: 1},
		&cli.Float64Flag{Name: "seconds", Usage: "as many of the workload", DefaultText: "120, of a trace all"},
		&cli.Float64Flag{Name: "warm-up", Usage: "seconds of the workload whose requests are not counted", Value: 20},
		&cli.IntFlag{Name: "block-tokens", Usage: "tokens of a block of the trace", DefaultText: "512"},
		&cli.IntFlag{Name: "max-output", Usage: "cut answers to as many tokens", Value: 20},
		&cli.IntFlag{Name: "workers", Usage: "how many", DefaultText: "4, for a trace 8"},
		&cli.Float64Flag{Name: "prefill", Usage: "blocks that a worker computes in a second", DefaultText: "1250, of a trace those of 8000 tokens"},
		&cli.StringSliceFlag{Name: "worker-speed", Usage: "`FACTOR` of the prefill rate of a worker; repeated for the others, which take them in turn"},
		&cli.IntFlag{Name: "cache-blocks", Usage: "size of a worker's prefix cache", Value: 4000},
		&cli.StringFlag{Name: "restart", Usage: "have a worker lose its cache: `WORKER@SECOND`, the first worker being 1"},
	}
}

// setupOf is what the flags and the first argument say.
func setupOf(c *cli.Context) (workload.Setup, error) {
	s := workload.Setup{
		Workload: c.Args().First(), Rate: c.Float64("rate"), Speed: c.Float64("speed"), Seconds: c.Float64("seconds"), WarmUp: c.Float64("warm-up"),
		BlockTokens: c.Int("block-tokens"), MaxOutput: c.Int("max-output"), Workers: c.Int("workers"), Prefill: c.Float64("prefill"), CacheBlocks: c.Int("cache-blocks"),
	}
	for _, text := range c.StringSlice("worker-speed") {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, fmt.Errorf("--worker-speed %q: give a number", text)
		}
		s.Speeds = append(s.Speeds, v)
	}
	if text := c.String("restart"); text != "" {
		worker, at, _ := strings.Cut(text, "@")
		n, err1 := strconv.Atoi(worker)
		second, err2 := strconv.ParseFloat(at, 64)
		if err := errors.Join(err1, err2); err != nil || n < 1 {
			return s, fmt.Errorf("--restart %q: give WORKER@SECOND, as 1@60", text)
		}
		s.Restart = workload.Restart{Worker: n, Seconds: second}
	}
	return s, nil
}
