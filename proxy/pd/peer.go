package pd

import (
	"strconv"
	"unicode/utf8"

	"loadstar/proxy/rawjson"
)

// Connector is how the workers of a fleet hand blocks over.
type Connector uint8

// The connectors. NCCL between peers is NIXL with workers that registered a ZMQ
// address: only the request id matters to it.
const (
	NIXL Connector = iota
	Mooncake
	MoRIRead
	MoRIWrite
)

// Peer is one of the two workers of an attempt.
type Peer struct {
	Base   string // base URL; a rank in it is passed over
	ZMQ    string // address it registered, "" if it didn't
	Rank   int    // data-parallel rank, 0 if it has none
	DPSize int    // data-parallel ranks; 0 is taken as 1
	TPSize int    // tensor-parallel ranks; 0 is taken as 1

	// Of a prefill worker under Mooncake:
	Bootstrap string  // base URL of its bootstrap server, "" if unknown
	Engines   Engines // that server's answer
}

func (p *Peer) address() string {
	if p.ZMQ != "" {
		return p.ZMQ
	}
	return Address(p.Base)
}

// Pair is one attempt: who takes part in it and under which id.
type Pair struct {
	Connector       Connector
	Prefill, Decode Peer
	ID              ID

	// Push is what the prefill worker's last reply said of it, zero if it was not
	// one of NIXL's push mode or has been invalidated; see Identity.
	Push Identity
}

// AppendRequestID appends the X-Request-Id of both requests. Engines take the
// workers' addresses out of it.
func (p *Pair) AppendRequestID(dst []byte) []byte {
	dst = append(dst, "___prefill_addr_"...)
	dst = append(dst, p.Prefill.address()...)
	dst = append(dst, "___decode_addr_"...)
	dst = append(dst, p.Decode.address()...)
	dst = append(dst, '_')
	return p.ID.appendHex(dst)
}

// AppendPrefillKV appends the transfer parameters of the request to the prefill
// worker.
func (p *Pair) AppendPrefillKV(dst []byte) []byte {
	switch p.Connector {
	case Mooncake:
		dst = append(dst, `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"`...)
		return append(p.appendTransferID(dst), `"}`...)
	case MoRIRead, MoRIWrite:
		dst = append(dst, `{"do_remote_decode":true,"do_remote_prefill":false,`...)
		return p.appendMoRI(dst, &p.Decode)
	default:
		return append(dst, `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`...)
	}
}

// AppendEarlyKV appends the transfer parameters of the request to the decode
// worker if they can be told before the prefill worker has replied. If so the
// two requests can be sent at once; if it reports false, and appends nothing,
// prefill goes first. Under Mooncake false says that the bootstrap server's
// answer is missing: blocks that were prefilled could not be fetched and would
// stay until they time out, so the request is best left whole.
func (p *Pair) AppendEarlyKV(dst []byte) ([]byte, bool) {
	switch p.Connector {
	case NIXL:
		if p.Push == (Identity{}) {
			return dst, false
		}
		return p.appendPush(dst, p.Push), true
	case Mooncake:
		engine, ok := p.Prefill.Engines.forRank(p.Prefill.Rank)
		if !ok || p.Prefill.Bootstrap == "" {
			return dst, false
		}
		dst = append(dst, `{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"`...)
		dst = p.appendTransferID(dst)
		dst = append(dst, `","remote_bootstrap_addr":`...)
		dst = appendString(dst, p.Prefill.Bootstrap)
		dst = append(dst, `,"remote_engine_id":`...)
		dst = append(dst, engine...)
		return append(dst, '}'), true
	case MoRIWrite:
		dst = append(dst, `{"do_remote_decode":false,"do_remote_prefill":true,`...)
		return p.appendMoRI(dst, &p.Prefill), true
	}
	return dst, false
}

// AppendDecodeKV appends the transfer parameters of the request to the decode
// worker, given the prefill worker's reply. It reports false if the workers need
// some and there are none: then, as when it appends nothing, the request goes
// without, and the decode worker computes the prompt again.
func (p *Pair) AppendDecodeKV(dst []byte, r *Reply) ([]byte, bool) {
	if p.Connector == Mooncake || p.Connector == MoRIWrite {
		return p.AppendEarlyKV(dst)
	}
	if r.Handoff != HandoffGiven {
		return dst, p.namedByID()
	}
	if p.Connector == MoRIRead {
		size := strconv.AppendInt(nil, int64(max(1, p.Prefill.DPSize)), 10)
		return rawjson.AppendEdited(dst, r.KV, []rawjson.Edit{{Name: "remote_dp_size", Value: size}})
	}
	if push, ok := r.Identity(); ok {
		return p.appendPush(dst, push), true
	}
	return append(dst, r.KV...), true
}

// MayMove reports whether, after the reply r, another worker can take the place
// of the decode worker, with the same transfer parameters and a request id that
// names it. It can where it fetches the blocks by itself. Where the prefill
// worker sends them, or waits for the one that the id names, both requests have
// to be made again, as another attempt. Under MoRI's reads it can if the prefill
// worker was told its sizes.
func (p *Pair) MayMove(r *Reply, to *Peer) bool {
	switch p.Connector {
	case NIXL:
		return !p.namedByID() && !r.push()
	case MoRIRead:
		return max(1, to.DPSize) == max(1, p.Decode.DPSize) && max(1, to.TPSize) == max(1, p.Decode.TPSize)
	}
	return false
}

// namedByID reports whether the request id is all that the workers need.
func (p *Pair) namedByID() bool {
	return p.Connector == NIXL && p.Prefill.ZMQ != "" && p.Decode.ZMQ != ""
}

// appendTransferID appends the name of the transfer, in the form that the
// engines insist on.
func (p *Pair) appendTransferID(dst []byte) []byte {
	if p.Connector == Mooncake {
		return p.ID.appendUUID(append(dst, "xfer-"...))
	}
	return p.ID.appendHex(append(dst, "tx-"...))
}

// appendMoRI appends what follows the directions in MoRI's parameters. other is
// the worker that does not get them.
func (p *Pair) appendMoRI(dst []byte, other *Peer) []byte {
	dst = append(dst, `"remote_engine_id":null,"remote_block_ids":null,"transfer_id":"`...)
	dst = p.appendTransferID(dst)
	dst = append(dst, `","remote_dp_size":`...)
	dst = strconv.AppendInt(dst, int64(max(1, other.DPSize)), 10)
	if p.Connector == MoRIWrite {
		dst = append(dst, `,"remote_tp_size":`...)
		dst = strconv.AppendInt(dst, int64(max(1, other.TPSize)), 10)
		if other.DPSize > 1 {
			dst = append(dst, `,"remote_dp_rank":`...)
			dst = strconv.AppendInt(dst, int64(other.Rank), 10)
		}
	}
	return append(dst, '}')
}

func (p *Pair) appendPush(dst []byte, id Identity) []byte {
	dst = append(dst, `{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":`...)
	dst = append(dst, id.EngineID...)
	dst = append(dst, `,"remote_host":`...)
	dst = append(dst, id.Host...)
	dst = append(dst, `,"remote_port":`...)
	dst = append(dst, id.Port...)
	dst = append(dst, `,"tp_size":`...)
	dst = append(dst, id.TPSize...)
	dst = append(dst, `,"remote_request_id":`...)
	dst = appendString(dst, string(p.AppendRequestID(nil)))
	return append(dst, '}')
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
