package zmq

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// handshakeLimit is how long a handshake may take.
	handshakeLimit = 10 * time.Second

	// writeLimit is how long an answer may take to be accepted by a peer's
	// kernel. A peer that never reads is given up then.
	writeLimit = 5 * time.Second

	// bufferSize is the buffer of a connection, in bytes: a ping fits.
	bufferSize = 512
)

// read serves one connection until the peer leaves, breaks the protocol or is
// silent for longer than its registration would last. A live worker that is cut
// off so connects again by itself.
func (l *Listener) read(conn net.Conn) {
	defer func() { <-l.peers }()
	closed := make(chan struct{})
	stop := context.AfterFunc(l.ctx, func() {
		_ = conn.Close()
		close(closed)
	})
	defer func() {
		if !stop() {
			<-closed
		}
		_ = conn.Close()
	}()
	peer := conn.RemoteAddr().String()
	defer func() {
		// One peer's bytes must not end the process, whatever they are.
		if p := recover(); p != nil {
			l.tell(event{note: notePanic, peer: peer, err: fmt.Errorf("%v", p)})
		}
	}()
	err := l.readPings(conn, peer)
	var fault protocolError
	if errors.As(err, &fault) {
		l.tell(event{note: noteProtocol, peer: peer, err: fault})
	}
}

// readPings returns why it ended.
func (l *Listener) readPings(conn net.Conn, peer string) error {
	w := &wire{in: bufio.NewReaderSize(conn, bufferSize), out: timedWriter{conn}}
	if err := conn.SetReadDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	if err := w.handshake(); err != nil {
		return err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(2 * l.opts.Expiry)); err != nil {
			return err
		}
		message, err := w.readMessage()
		if err != nil {
			return err
		}
		e := event{peer: peer}
		if e.ping, e.err = parse(message, l.opts.MoRIIO); e.err != nil {
			e.note = noteBadPing
		}
		if !l.tell(e) {
			return l.ctx.Err()
		}
	}
}

// timedWriter ends a connection whose peer doesn't read.
type timedWriter struct{ conn net.Conn }

func (w timedWriter) Write(b []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return w.conn.Write(b)
}
