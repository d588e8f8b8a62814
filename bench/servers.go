package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"

	"loadstar/bench/bare"
	"loadstar/bench/compare"
	"loadstar/bench/nats"
	"loadstar/bench/worker"
	"loadstar/bench/worker/null"
)

// nullCommand is a part of compare: workers that answer at once.
func nullCommand() *cli.Command {
	return &cli.Command{
		Name: compare.NullCommand, Usage: "run workers that answer at once", ArgsUsage: "ADDRESS...",
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return errors.New("no address is given: name at least one host:port to listen at")
			}
			return serve(c.Context, c.Args().Slice(), null.Serve)
		},
	}
}

// bareCommand is a part of compare: a forwarder that does nothing else.
func bareCommand() *cli.Command {
	return &cli.Command{
		Name: compare.BareCommand, Usage: "run a forwarder without routing", ArgsUsage: "ADDRESS WORKER...",
		Action: func(c *cli.Context) error {
			if c.NArg() < 2 {
				return errors.New("give the host:port to listen at and those of the workers")
			}
			args := c.Args().Slice()
			return serve(c.Context, args[:1], func(ln net.Listener) error { return bare.Serve(ln, args[1:]) })
		},
	}
}

// serve answers at addresses until ctx ends or one fails.
func serve(ctx context.Context, addresses []string, each func(net.Listener) error) error {
	ended := make(chan error, len(addresses))
	for _, a := range addresses {
		ln, err := net.Listen("tcp", a)
		if err != nil {
			return err
		}
		defer ln.Close()
		go func() { ended <- each(ln) }()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// natsCommand is a NATS server, for routers that tell each other what they run.
func natsCommand() *cli.Command {
	return &cli.Command{
		Name: "nats", Usage: "run a NATS server, for several routers",
		Flags: []cli.Flag{&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` to listen at", Value: "127.0.0.1:4222"}},
		Action: func(c *cli.Context) error {
			s, err := nats.Start(c.String("listen"))
			if err != nil {
				return err
			}
			defer s.Close()
			if _, err := fmt.Fprintln(c.App.Writer, s.URL()); err != nil {
				return err
			}
			<-c.Done()
			return nil
		},
	}
}

// workerCommand is one simulated worker.
func workerCommand() *cli.Command {
	var cfg worker.Config
	return &cli.Command{
		Name: "worker", Usage: "run a simulated inference worker",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` to listen at", Value: "127.0.0.1:0"},
			&cli.StringFlag{Name: "model", Usage: "`NAME` of the model", Value: "sim", Destination: &cfg.Model},
			&cli.Float64Flag{Name: "prefill-blocks-per-second", Usage: "prompt blocks of 64 bytes that are computed in a second", Value: 1250, Destination: &cfg.PrefillBlocksPerSecond},
			&cli.BoolFlag{Name: "chunked-prefill", Usage: "share the prefill rate among prompts instead of one after another", Destination: &cfg.ChunkedPrefill},
			&cli.DurationFlag{Name: "decode-base", Usage: "time of a token with one stream", Value: 10 * time.Millisecond, Destination: &cfg.DecodeBase},
			&cli.DurationFlag{Name: "decode-per-stream", Usage: "what each further stream adds to it", Value: 100 * time.Microsecond, Destination: &cfg.DecodePerStream},
			&cli.IntFlag{Name: "output-tokens", Usage: "length of an answer", Value: 64, Destination: &cfg.OutputTokens},
			&cli.IntFlag{Name: "cache-blocks", Usage: "size of the prefix cache; negative for none", Value: 4000, Destination: &cfg.CacheBlocks},
			&cli.IntFlag{Name: "max-running", Usage: "requests that run at once", Value: 256, Destination: &cfg.MaxRunning},
			&cli.IntFlag{Name: "max-queue", Usage: "requests that wait; negative for none", Value: 1024, Destination: &cfg.MaxQueue},
			&cli.IntFlag{Name: "overload-status", Usage: "answer to further ones, 503 or 429", Value: http.StatusServiceUnavailable, Destination: &cfg.OverloadStatus},
			&cli.IntFlag{Name: "ranks", Usage: "data-parallel ranks", Destination: &cfg.Ranks},
			&cli.Float64Flag{Name: "time-scale", Usage: "how much faster than said", Value: 1, Destination: &cfg.TimeScale},
			&cli.Uint64Flag{Name: "seed", Usage: "varies the words of answers", Destination: &cfg.Seed},
			&cli.BoolFlag{Name: "allow-faults", Usage: "let requests ask for failures with X-Sim-Fail", Destination: &cfg.AllowFaults},
		},
		Action: func(c *cli.Context) error {
			ln, err := net.Listen("tcp", c.String("listen"))
			if err != nil {
				return err
			}
			w := worker.New(cfg)
			stop := context.AfterFunc(c.Context, w.Close)
			defer stop()
			defer w.Close()
			if _, err := fmt.Fprintf(c.App.Writer, "http://%s\n", ln.Addr()); err != nil {
				return err
			}
			return w.Serve(ln)
		},
	}
}
