package zmq

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// This file is the part of ZMTP 3.1 that a ROUTER needs which only receives,
// with the NULL mechanism: https://rfc.zeromq.org/spec/37/.
//
// It is here, and zmq4 in tests only, since zmq4 v0.17.0 shakes hands with one
// peer after another and without a time limit, so that one silent peer keeps all
// others out, and allocates whatever size a frame claims, up to 2⁶³-1 bytes.

// maxFrame bounds a frame, in bytes. A ping has a few hundred; one that lists
// the hosts of a large worker has a few thousand.
const maxFrame = 16 << 10

// maxFrames bounds the frames of a message. A ping is one.
const maxFrames = 16

// Flags of a frame. All other bits are reserved.
const (
	flagMore    = 1 << iota // another frame of the same message follows
	flagLong                // the size has eight bytes, not one
	flagCommand             // it is a command, not a part of a message
)

const (
	signatureSize = 10
	versionSize   = 2
	greetingSize  = 64
	mechanismSize = 20
)

// greeting is what we begin with: version 3.1, NULL. It asks for nothing, so it
// goes out before the peer's is read.
var greeting = [greetingSize]byte{0: 0xFF, 8: 1, 9: 0x7F, 10: 3, 11: 1, 12: 'N', 13: 'U', 14: 'L', 15: 'L'}

// ready is our half of the NULL handshake, an empty identity included.
var ready = command("READY", []byte("\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x00"))

// A protocolError says how a peer broke the protocol. Every other error of a
// wire is the network's.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// command gives the bytes of a command with up to 240 bytes of data.
func command(name string, data []byte) []byte {
	b := []byte{flagCommand, byte(1 + len(name) + len(data)), byte(len(name))}
	return append(append(b, name...), data...)
}

// wire is one peer's side of the protocol.
type wire struct {
	in    *bufio.Reader
	out   io.Writer
	frame []byte // the last frame's body; used again
}

// handshake greets the peer and makes sure that it is a DEALER.
func (w *wire) handshake() error {
	if _, err := w.out.Write(greeting[:]); err != nil {
		return err
	}
	if err := w.readGreeting(); err != nil {
		return err
	}
	if _, err := w.out.Write(ready); err != nil {
		return err
	}
	flags, err := w.readFrame()
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 {
		return errNotReady
	}
	name, data, err := splitCommand(w.frame)
	switch {
	case err != nil:
		return err
	case name == "ERROR":
		return protocolError(fmt.Sprintf("the peer ended the handshake: %.100q", data))
	case name != "READY":
		return errNotReady
	}
	socket, err := property(data, "Socket-Type")
	if err == nil && socket != "DEALER" {
		err = protocolError(fmt.Sprintf("the peer is a %.20q socket: workers use DEALER", socket))
	}
	return err
}

// readGreeting reads in steps, so that what isn't ZeroMQ is known by its first
// bytes and not by the time that passes.
func (w *wire) readGreeting() error {
	var g [greetingSize]byte
	if _, err := io.ReadFull(w.in, g[:1]); err != nil {
		return err
	}
	if g[0] != greeting[0] {
		return protocolError(fmt.Sprintf("it does not speak ZeroMQ: its first byte is %#02x", g[0]))
	}
	if _, err := io.ReadFull(w.in, g[1:signatureSize+versionSize]); err != nil {
		return err
	}
	if g[signatureSize-1] != greeting[signatureSize-1] || g[signatureSize] < 3 {
		return protocolError("it speaks ZMTP older than 3.0: libzmq 4 or newer is needed")
	}
	rest := g[signatureSize+versionSize:]
	if _, err := io.ReadFull(w.in, rest); err != nil {
		return err
	}
	mechanism := bytes.TrimRight(rest[:mechanismSize], "\x00")
	if string(mechanism) != "NULL" {
		return protocolError(fmt.Sprintf("it wants the security mechanism %q: only NULL is spoken", mechanism))
	}
	return nil
}

// readMessage returns the first frame of the next message, which is valid until
// the next call. The frames behind it are dropped, pings of the protocol
// answered.
func (w *wire) readMessage() ([]byte, error) {
	for {
		flags, err := w.readFrame()
		switch {
		case err != nil:
			return nil, err
		case flags&flagCommand != 0:
			if err := w.answer(); err != nil {
				return nil, err
			}
			continue
		}
		for n := 1; flags&flagMore != 0; n++ {
			var size int
			if flags, size, err = w.readHead(); err == nil && n < maxFrames && flags&flagCommand == 0 {
				_, err = w.in.Discard(size)
			} else if err == nil {
				err = protocolError(fmt.Sprintf("a message has a command within or more than %d frames", maxFrames))
			}
			if err != nil {
				return nil, err
			}
		}
		return w.frame, nil
	}
}

// answer takes the command in w.frame. A PING is answered with its context, so
// that a peer with heartbeats stays; other commands mean nothing to a ROUTER.
func (w *wire) answer() error {
	name, data, err := splitCommand(w.frame)
	if err != nil || name != "PING" {
		return err
	}
	const ttl, context = 2, 16 // sizes; the context's at most
	if len(data) < ttl || len(data) > ttl+context {
		return protocolError("a PING has the wrong size")
	}
	_, err = w.out.Write(command("PONG", data[ttl:]))
	return err
}

// readFrame reads a frame into w.frame.
func (w *wire) readFrame() (flags byte, err error) {
	flags, size, err := w.readHead()
	if err != nil {
		return 0, err
	}
	if cap(w.frame) < size {
		w.frame = make([]byte, size)
	}
	w.frame = w.frame[:size]
	_, err = io.ReadFull(w.in, w.frame)
	return flags, err
}

// readHead reads what stands before a frame's body.
func (w *wire) readHead() (flags byte, size int, err error) {
	if flags, err = w.in.ReadByte(); err != nil {
		return 0, 0, err
	}
	const all = flagMore | flagLong | flagCommand
	if flags&^all != 0 || flags&(flagCommand|flagMore) == flagCommand|flagMore {
		return 0, 0, protocolError(fmt.Sprintf("a frame has the flags %#02x", flags))
	}
	var b [8]byte
	field := b[7:]
	if flags&flagLong != 0 {
		field = b[:]
	}
	if _, err := io.ReadFull(w.in, field); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint64(b[:])
	if n > maxFrame {
		return 0, 0, protocolError(fmt.Sprintf("a frame has %d bytes: at most %d are taken", n, maxFrame))
	}
	return flags, int(n), nil
}

const (
	errNotReady = protocolError("the handshake has no READY command")
	errCommand  = protocolError("a command is cut short")
)

// splitCommand takes a command's name from its body.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || len(body) < 1+int(body[0]) {
		return "", nil, errCommand
	}
	end := 1 + int(body[0])
	return string(body[1:end]), body[end:], nil
}

// property finds a property among a handshake's metadata, whose names have no
// case. It is empty if there is none.
func property(metadata []byte, name string) (string, error) {
	for len(metadata) > 0 {
		n := 1 + int(metadata[0])
		if len(metadata) < n+4 {
			return "", errCommand
		}
		key, rest := metadata[1:n], metadata[n+4:]
		size := binary.BigEndian.Uint32(metadata[n:])
		if uint64(size) > uint64(len(rest)) {
			return "", errCommand
		}
		if strings.EqualFold(string(key), name) {
			return string(rest[:size]), nil
		}
		metadata = rest[size:]
	}
	return "", nil
}
