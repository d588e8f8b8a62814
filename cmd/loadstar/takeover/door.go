package takeover

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// Socket is a listening socket, with the name and the configured address by which
// the next process knows whether it wants it.
type Socket struct {
	Name     string
	Address  string
	Listener net.Listener
}

// Door is where the next process asks for the sockets.
type Door struct {
	path    string
	beside  string // where it is made
	ln      *net.UnixListener
	made    os.FileInfo
	asked   chan *Next    // ready, one at a time
	pending chan struct{} // holds one while somebody is served
	closed  chan struct{}
}

// Make makes a door beside path, so that what is at path stays until Open. The
// error says why there can't be one.
func Make(path string) (*Door, error) {
	beside := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(beside) // left by a process of the same number
	lc := net.ListenConfig{Control: private}
	ln, err := lc.Listen(context.Background(), "unix", beside)
	if err != nil {
		return nil, err
	}
	u := ln.(*net.UnixListener)
	u.SetUnlinkOnClose(false) // the file's name is changed, and may then be another's
	made, err := os.Lstat(beside)
	if err != nil {
		u.Close()
		return nil, err
	}
	return &Door{
		path: path, beside: beside, ln: u, made: made,
		asked: make(chan *Next), pending: make(chan struct{}, 1), closed: make(chan struct{}),
	}, nil
}

// Open puts the door at its path and offers the sockets there.
func (d *Door) Open(sockets []Socket) error {
	if err := os.Rename(d.beside, d.path); err != nil {
		return err
	}
	d.beside = ""
	go d.serve(sockets)
	return nil
}

// Asked gives the next process once it is ready to serve. Its Yield follows.
func (d *Door) Asked() <-chan *Next { return d.asked }

// Close takes the door away. It is called once. A next process that isn't ready
// yet keeps the sockets and goes on alone.
func (d *Door) Close() {
	close(d.closed)
	d.ln.Close()
	if d.beside != "" {
		_ = os.Remove(d.beside)
		return
	}
	if at, err := os.Lstat(d.path); err == nil && os.SameFile(at, d.made) {
		_ = os.Remove(d.path)
	}
}

func (d *Door) serve(sockets []Socket) {
	for {
		c, err := d.ln.AcceptUnix()
		select {
		case <-d.closed:
			if err == nil {
				c.Close()
			}
			return
		default:
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // of descriptors there is a shortage
			continue
		}
		select {
		case d.pending <- struct{}{}:
			go func() {
				d.attend(c, sockets)
				<-d.pending
			}()
		default:
			refuse(c, "another process is taking over already")
		}
	}
}

func refuse(c net.Conn, why string) {
	_ = c.SetDeadline(time.Now().Add(stepTimeout))
	_, _ = c.Write(appendLine(nil, line{Refused: why}))
	c.Close()
}

// attend hands sockets over and waits until the next process is ready, has ended or
// has taken too long.
func (d *Door) attend(c *net.UnixConn, sockets []Socket) {
	gone := make(chan struct{})
	defer close(gone)
	go func() { // so that nothing here outlives the door
		select {
		case <-d.closed:
			_ = c.SetReadDeadline(time.Unix(1, 0))
		case <-gone:
		}
	}()
	hello := line{Takeover: version, PID: os.Getpid()}
	var listeners []net.Listener
	for _, s := range sockets {
		hello.Sockets = append(hello.Sockets, socketLine{s.Name, s.Address})
		listeners = append(listeners, s.Listener)
	}
	_ = c.SetWriteDeadline(time.Now().Add(stepTimeout))
	if err := sendSockets(c, appendLine(nil, hello), listeners); err != nil {
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(pendingFor))
	select {
	case <-d.closed: // whose deadline may have come before this one
		c.Close()
		return
	default:
	}
	l, err := newReader(c).next()
	select {
	case <-d.closed:
		c.Close()
		return
	default:
	}
	if err != nil || !l.Ready {
		refuse(c, "it has not become ready")
		return
	}
	select {
	case d.asked <- &Next{c}:
	case <-d.closed:
		c.Close()
	}
}

// Next is the process that takes over.
type Next struct{ conn *net.UnixConn }

// Yield says that the sockets are the next process's own. After an error nobody has
// taken over.
func (n *Next) Yield() error {
	_ = n.conn.SetDeadline(time.Time{})
	_ = n.conn.SetWriteDeadline(time.Now().Add(stepTimeout))
	_, err := n.conn.Write(appendLine(nil, line{Yours: true}))
	if err != nil {
		n.conn.Close()
	}
	return err
}

// Refuse says that nothing comes of it.
func (n *Next) Refuse(why string) { refuse(n.conn, why) }

// Tell tells the next process what runs at workers, until ctx ends, loads reports
// false or nobody listens. The end of the connection is the end of it all.
func (n *Next) Tell(ctx context.Context, loads func() ([]Load, bool)) {
	defer n.conn.Close()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var text []byte
	for {
		all, ok := loads()
		if !ok {
			return
		}
		all = append([]Load{}, all[:min(len(all), maxWorkers)]...)
		text = appendLine(text[:0], line{Loads: &all})
		_ = n.conn.SetWriteDeadline(time.Now().Add(stepTimeout))
		if _, err := n.conn.Write(text); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
