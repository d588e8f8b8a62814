package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"loadstar/actors/peers"
	"loadstar/actors/peers/nats/server"
	"loadstar/proxy"
)

// peersOf is how this router joins others, or nil if there are none. The error names
// the flag.
func peersOf(c config) (*proxy.PeersOptions, error) {
	if !c.Peers.Enabled() {
		return nil, nil
	}
	o := proxy.PeersOptions{Name: c.Peers.Name, Group: c.Peers.Group, Servers: c.Peers.Servers, CredsFile: c.Peers.CredsFile}
	if o.CredsFile != "" {
		f, err := os.Open(o.CredsFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use the credentials of --peers-nats-creds %q: %w", o.CredsFile, withoutPath(err))
		}
		f.Close()
	}
	if o.Name == "" {
		o.Name = madeUpName()
	}
	return &o, nil
}

// ownNATS is the NATS server of this process, if there is one.
type ownNATS struct{ server *server.Server }

// openNATS begins to run it. If nobody was before, its address must be free; else it is
// taken as soon as the process before gives it up, and meanwhile this router hears of what
// that one runs, and of no others.
func openNATS(c config, nobodyBefore bool, log *slog.Logger) (ownNATS, error) {
	own := &c.Peers.Own
	if !own.Enabled() {
		return ownNATS{}, nil
	}
	s := server.Open(server.Options{
		Host: own.Listen.Host, Port: own.Listen.Port, User: own.User, Password: own.Password, Token: own.Token, Routes: own.Routes,
		Insist: !nobodyBefore, Tell: func(e server.Event) { logNATS(log, e) },
	})
	began := make(chan error, 1)
	go func() {
		addr, err := s.Await()
		if err == nil {
			log.Info("a NATS server for other routers listens", "address", addr, "routes", len(own.Routes), "asks_for_password", own.User+own.Token != "")
		}
		began <- err
	}()
	if nobodyBefore {
		if err := <-began; err != nil {
			return ownNATS{}, fmt.Errorf("cannot listen for other routers: %w; choose another --peers-nats-listen", err)
		}
	}
	return ownNATS{s}, nil
}

// close ends it, so that another process may have the address.
func (o ownNATS) close() {
	if o.server != nil {
		o.server.Close()
	}
}

// put writes into the proxy's options where it is.
func (o ownNATS) put(join *proxy.PeersOptions) {
	if o.server != nil {
		join.Dial = o.server.Dial
	}
}

// logNATS writes down what a NATS server in this process says.
func logNATS(log *slog.Logger, e server.Event) {
	level := slog.LevelDebug
	if e.Level == server.Warning {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("says", e.Text)}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	if e.More > 0 {
		attrs = append(attrs, slog.Int("more_not_told", e.More))
	}
	log.LogAttrs(context.Background(), level, "NATS server", attrs...)
}

// madeUpName is the host's name, as far as it may stand in a name, and random digits.
func madeUpName() string {
	host, _ := os.Hostname() // without one the digits do
	host = strings.Map(func(r rune) rune {
		if peers.IsName(string(r)) {
			return r
		}
		return '-'
	}, host)
	var digits [4]byte
	_, _ = rand.Read(digits[:]) // never fails
	return strings.TrimPrefix(host[:min(len(host), 48)]+"-"+hex.EncodeToString(digits[:]), "-")
}
