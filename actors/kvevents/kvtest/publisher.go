// Package kvtest publishes KV-cache events as vLLM does, for tests.
package kvtest

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/tinylib/msgp/msgp"
)

// Publisher is the event side of a worker. Its two sockets speak to real ones.
type Publisher struct {
	t      testing.TB
	pub    net.Listener
	replay net.Listener

	mu     sync.Mutex
	conns  []*subscriber // that have subscribed
	open   []net.Conn    // of either socket
	buffer []batch
	next   uint64
	asked  []uint64 // numbers from which replays were asked for
	done   bool
	last   []byte // the payload published last
	none   bool   // nothing is kept
}

type subscriber struct {
	*zmq4.Conn
	net net.Conn
}

type batch struct {
	seq     uint64
	payload []byte
}

// New starts a publisher, which ends with the test.
func New(t testing.TB) *Publisher {
	t.Helper()
	p := &Publisher{t: t}
	p.pub, p.replay = p.listen(), p.listen()
	ended := make(chan struct{}, 2)
	go p.serve(p.pub, p.subscribe, ended)
	go p.serve(p.replay, p.answer, ended)
	t.Cleanup(func() {
		p.mu.Lock()
		p.done = true
		p.mu.Unlock()
		p.pub.Close()
		p.replay.Close()
		p.CutOff()
		<-ended
		<-ended
	})
	return p
}

func (p *Publisher) listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// Endpoint is where events are published, as host:port; Replay is where missed ones are.
func (p *Publisher) Endpoint() string { return p.pub.Addr().String() }

// Replay is where missed events are had, as host:port.
func (p *Publisher) Replay() string { return p.replay.Addr().String() }

func (p *Publisher) serve(l net.Listener, f func(net.Conn), ended chan<- struct{}) {
	var handlers sync.WaitGroup
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		p.mu.Lock()
		p.open = append(p.open, c)
		if p.done {
			c.Close()
		}
		p.mu.Unlock()
		handlers.Go(func() { f(c) })
	}
	handlers.Wait()
	ended <- struct{}{}
}

// subscribe shakes hands, waits for the subscription, and then for the connection's end.
func (p *Publisher) subscribe(c net.Conn) {
	defer c.Close()
	z, err := zmq4.Open(c, null.Security(), zmq4.Pub, nil, true, nil)
	if err != nil {
		return
	}
	if m, err := z.RecvMsg(); err != nil || len(m.Frames) != 1 || len(m.Frames[0]) != 1 || m.Frames[0][0] != 1 {
		return
	}
	s := &subscriber{z, c}
	p.mu.Lock()
	p.conns = append(p.conns, s)
	p.mu.Unlock()
	_, _ = z.RecvMsg()
	p.mu.Lock()
	p.conns = slices.DeleteFunc(p.conns, func(o *subscriber) bool { return o == s })
	p.mu.Unlock()
}

// answer answers one request for a replay.
func (p *Publisher) answer(c net.Conn) {
	defer c.Close()
	z, err := zmq4.Open(c, null.Security(), zmq4.Router, nil, true, nil)
	if err != nil {
		return
	}
	m, err := z.RecvMsg()
	if err != nil || len(m.Frames) != 2 || len(m.Frames[0]) != 0 || len(m.Frames[1]) != 8 {
		return
	}
	from := binary.BigEndian.Uint64(m.Frames[1])
	p.mu.Lock()
	p.asked = append(p.asked, from)
	all := slices.Clone(p.buffer)
	p.mu.Unlock()
	send := func(seq uint64, payload []byte) bool {
		return z.SendMsg(zmq4.NewMsgFrom(nil, nil, binary.BigEndian.AppendUint64(nil, seq), payload)) == nil
	}
	for _, b := range all {
		if b.seq >= from && !send(b.seq, b.payload) {
			return
		}
	}
	send(1<<64-1, nil)
	_, _ = z.RecvMsg() // until the other side has had it
}

// Publish publishes a batch of events, and keeps it for replays.
func (p *Publisher) Publish(events ...[]byte) { p.publish(Batch(events...), true) }

// Lose keeps a batch for replays without publishing it, as a full socket does.
func (p *Publisher) Lose(events ...[]byte) { p.publish(Batch(events...), false) }

// PublishRaw publishes a payload as it is.
func (p *Publisher) PublishRaw(payload []byte) { p.publish(payload, true) }

func (p *Publisher) publish(payload []byte, out bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.next
	p.next++
	p.last = payload
	if !p.none {
		p.buffer = append(p.buffer, batch{seq, payload})
	}
	if out {
		p.send(seq, payload)
	}
}

// send sends a batch to all who have subscribed.
func (p *Publisher) send(seq uint64, payload []byte) {
	for _, s := range p.conns {
		_ = s.SendMsg(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, seq), payload)) // its connection may have ended
	}
}

// KeepNone has nothing be kept for replays.
func (p *Publisher) KeepNone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer, p.none = nil, true
}

// Repeat publishes the last batch again, with its number, as one is that a replay has
// brought before.
func (p *Publisher) Repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(p.next-1, p.last)
}

// Forget drops the n oldest batches that are kept.
func (p *Publisher) Forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer = p.buffer[n:]
}

// CutOff ends all connections.
func (p *Publisher) CutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open, p.conns = nil, nil
}

// Shut is CutOff of a process that doesn't come back.
func (p *Publisher) Shut() {
	p.pub.Close()
	p.replay.Close()
	p.CutOff()
}

// Restart is CutOff of a process that has come back empty.
func (p *Publisher) Restart() {
	p.mu.Lock()
	p.buffer, p.next = nil, 0
	p.mu.Unlock()
	p.CutOff()
}

// StartAgain is a process that has come back empty behind something that keeps its
// connections.
func (p *Publisher) StartAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer, p.next = nil, 0
}

// AwaitSubscriber waits until somebody has subscribed.
func (p *Publisher) AwaitSubscriber() {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		n := len(p.conns)
		p.mu.Unlock()
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			p.t.Fatal("nobody has subscribed")
		}
	}
}

// Asked lists the numbers from which replays were asked for.
func (p *Publisher) Asked() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// Batch encodes a batch as vLLM 0.32 does: an array of events that are maps. Its time
// tells it from every other.
func Batch(events ...[]byte) []byte {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, float64(time.Now().UnixNano()))
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = append(b, e...)
	}
	return msgp.AppendInt(b, 0)
}

// Field is a field of an event.
type Field struct {
	Name  string
	Value any // nil, a whole number, a string, bytes, or a slice of these
}

// Event encodes an event as a map.
func Event(tag string, fields ...Field) []byte {
	b := msgp.AppendMapHeader(nil, uint32(1+len(fields)))
	b = msgp.AppendString(msgp.AppendString(b, "type"), tag)
	for _, f := range fields {
		b = appendValue(msgp.AppendString(b, f.Name), f.Value)
	}
	return b
}

// ArrayEvent encodes an event as an array, as earlier versions of vLLM do.
func ArrayEvent(tag string, fields ...Field) []byte {
	b := msgp.AppendString(msgp.AppendArrayHeader(nil, uint32(1+len(fields))), tag)
	for _, f := range fields {
		b = appendValue(b, f.Value)
	}
	return b
}

func appendValue(b []byte, v any) []byte {
	b, err := msgp.AppendIntf(b, v)
	if err != nil {
		panic(fmt.Sprintf("kvtest: %v", err))
	}
	return b
}

// Stored are the fields of blocks that were stored in the GPU's memory, behind parent,
// which is nil for the first ones.
func Stored(parent any, size int, tokens []uint32, hashes ...uint64) []Field {
	return []Field{
		{"block_hashes", list(hashes)},
		{"parent_block_hash", parent},
		{"token_ids", list(tokens)},
		{"block_size", size},
		{"lora_id", nil},
		{"medium", "GPU"},
		{"lora_name", nil},
	}
}

// Removed are the fields of blocks that were removed from the GPU's memory.
func Removed(hashes ...uint64) []Field {
	return []Field{{"block_hashes", list(hashes)}, {"medium", "GPU"}}
}

func list[T any](all []T) []any {
	out := make([]any, len(all))
	for i := range all {
		out[i] = all[i]
	}
	return out
}
