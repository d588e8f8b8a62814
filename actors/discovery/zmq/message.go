package zmq

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"

	"loadstar/actors"
)

// maxRanks bounds a worker's tensor-parallel and data-parallel sizes.
const maxRanks = 1024

// errBroken is the one error of a ping that doesn't continue a sentence which
// begins with a key.
var errBroken = errors.New("it is not one whole msgpack map")

// parse reads a ping: a msgpack map. Keys that it doesn't know are skipped; of a
// key that stands twice the last counts. A MoRI-IO worker must name its transfer
// mode; in a fleet that isn't MoRI-IO a worker that names one is refused, since
// no request of that fleet would suit it.
func parse(ping []byte, moriio bool) (Registration, error) {
	r := Registration{TPSize: 1, DPSize: 1}
	n, b, err := msgp.ReadMapHeaderBytes(ping)
	if err != nil {
		return Registration{}, errBroken
	}
	for range n {
		key, rest, err := readKey(b)
		if err == nil {
			b, err = r.set(key, rest, moriio)
		}
		switch {
		case errors.Is(err, errBroken):
			return Registration{}, err
		case err != nil:
			return Registration{}, fmt.Errorf("%s %w", key, err)
		}
	}
	switch {
	case len(b) > 0:
		return Registration{}, errBroken
	case r.Role == actors.Regular:
		return Registration{}, errors.New("type is missing")
	case r.HTTPAddress == "":
		return Registration{}, errors.New("http_address is missing")
	case r.ZMQAddress == "":
		return Registration{}, errors.New("zmq_address is missing")
	case moriio && r.Mode == NoMode:
		return Registration{}, errors.New("transfer_mode is missing, so it is no MoRI-IO worker: start the router with another --kv-connector")
	}
	return r, nil
}

// set takes the value of one key from the front of b and returns what follows.
func (r *Registration) set(key string, b []byte, moriio bool) (rest []byte, err error) {
	var text string
	switch key {
	case "type":
		if text, rest, err = readText(b); err == nil {
			r.Role, err = roleOf(text)
		}
	case "http_address":
		if text, rest, err = readText(b); err == nil {
			r.HTTPAddress, err = httpAddress(text)
		}
	case "zmq_address":
		if r.ZMQAddress, rest, err = readText(b); err == nil {
			err = checkZMQAddress(r.ZMQAddress)
		}
	case "transfer_mode":
		if !moriio {
			return nil, errors.New("is named, so it is a MoRI-IO worker: start the router with --kv-connector moriio")
		}
		if text, rest, err = readText(b); err == nil {
			r.Mode, err = modeOf(text)
		}
	case "tp_size", "dp_size":
		if !moriio {
			return skip(b)
		}
		size := &r.TPSize
		if key == "dp_size" {
			size = &r.DPSize
		}
		*size, rest, err = readSize(b)
	default:
		return skip(b)
	}
	return rest, err
}

// skip returns what follows one value.
func skip(b []byte) (rest []byte, err error) {
	if rest, err = msgp.Skip(b); err != nil {
		return nil, errBroken
	}
	return rest, nil
}

// readKey reads a key, which is empty unless it is a string.
func readKey(b []byte) (key string, rest []byte, err error) {
	if rest, err = skip(b); err != nil {
		return "", nil, err
	}
	text, _, err := msgp.ReadStringZC(b)
	if err != nil {
		return "", rest, nil
	}
	return string(text), rest, nil
}

func readText(b []byte) (text string, rest []byte, err error) {
	if rest, err = skip(b); err != nil {
		return "", nil, err
	}
	raw, _, err := msgp.ReadStringZC(b)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("is of type %s: a worker says a string", msgp.NextType(b))
	case len(raw) > maxText:
		return "", nil, fmt.Errorf("has %d bytes: at most %d are taken", len(raw), maxText)
	}
	return string(raw), rest, nil
}

func readSize(b []byte) (n int, rest []byte, err error) {
	if rest, err = skip(b); err != nil {
		return 0, nil, err
	}
	n, _, err = msgp.ReadIntBytes(b)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("is of type %s: a worker says a whole number from 1 to %d", msgp.NextType(b), maxRanks)
	case n < 1 || n > maxRanks:
		return 0, nil, fmt.Errorf("is %d: a worker has from 1 to %d ranks", n, maxRanks)
	}
	return n, rest, nil
}

func roleOf(text string) (actors.Role, error) {
	switch text {
	case "P":
		return actors.Prefill, nil
	case "D":
		return actors.Decode, nil
	}
	return 0, fmt.Errorf("is %.40q: a worker says P or D", text)
}

func modeOf(text string) (Mode, error) {
	switch text {
	case "READ":
		return Read, nil
	case "WRITE":
		return Write, nil
	}
	return 0, fmt.Errorf("is %.40q: a worker says READ or WRITE", text)
}
