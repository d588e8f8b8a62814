// Package nats runs a NATS server in this process, for routers that tell each other
// what they run.
package nats

import (
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout bounds the wait for the server to listen.
const startTimeout = 10 * time.Second

// Server is a NATS server.
type Server struct{ server *server.Server }

// Start starts a server at an address, host:port; a port of 0 lets the system choose
// one.
func Start(address string) (*Server, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	o := server.Options{Host: host, Port: int(n), NoSigs: true, NoLog: true}
	if n == 0 {
		o.Port = server.RANDOM_PORT
	}
	return StartWith(&o)
}

// StartWith starts a server with these options.
func StartWith(o *server.Options) (*Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	go s.Start()
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		return nil, errors.New("the NATS server doesn't listen: is its address in use?")
	}
	return &Server{s}, nil
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.server.Addr().String() }

// URL is what clients connect to.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// Close ends the server and all connections to it.
func (s *Server) Close() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
