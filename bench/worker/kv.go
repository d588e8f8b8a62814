package worker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
)

// kvParams is a request's kv_transfer_params: what a prefill/decode router and
// its workers tell each other about a prompt's KV cache. NIXL names the blocks by
// the prefill's request id, Mooncake by a transfer id that both requests carry.
type kvParams struct {
	RemoteDecode  bool    `json:"do_remote_decode"`  // this is the prefill request
	RemotePrefill bool    `json:"do_remote_prefill"` // this is the decode request
	EngineID      string  `json:"remote_engine_id"`
	BlockIDs      [][]int `json:"remote_block_ids"` // none in NIXL's push mode
	RequestID     string  `json:"remote_request_id"`
	Host          string  `json:"remote_host"`
	Port          int     `json:"remote_port"`
	TransferID    string  `json:"transfer_id"`           // Mooncake
	BootstrapAddr string  `json:"remote_bootstrap_addr"` // Mooncake, a URL
}

// kvReply is kv_transfer_params of a NIXL prefill's answer: the decode request's,
// ready made.
type kvReply struct {
	TransferMode  string  `json:"transfer_mode,omitempty"` // "push" or none
	RemotePrefill bool    `json:"do_remote_prefill"`
	RemoteDecode  bool    `json:"do_remote_decode"`
	BlockIDs      [][]int `json:"remote_block_ids"`
	EngineID      string  `json:"remote_engine_id"`
	RequestID     string  `json:"remote_request_id"`
	Host          string  `json:"remote_host"`
	Port          int     `json:"remote_port"`
	TPSize        int     `json:"tp_size"`
}

// noHandover is the answer of a prefill that hands nothing over in it.
var noHandover = json.RawMessage("null")

// hand makes g's job the prefill or the decode half of a request that two workers
// share, if it is one.
func (c *call) hand(g *generation) (outcome, error) {
	switch {
	case g.kv == nil:
	case g.kv.RemoteDecode:
		// As in vLLM, a request that ended by itself leaves nothing to go on from.
		if g.ended == truncated {
			g.job.keep = c.keepKey(g.kv)
		}
	case g.kv.RemotePrefill:
		if len(g.job.prompts) > 1 {
			return failed, &apiError{
				status:  http.StatusInternalServerError,
				message: fmt.Sprintf("%d prompts share one kv_transfer_params; send each in a request of its own", len(g.job.prompts)),
			}
		}
		c.source = g.kv.source()
		g.job.fetches, g.job.lost = c.source.peer != nil, c.source.peer == nil
	}
	return stopped, nil
}

// keepKey is the name under which a prefill's blocks wait. Where the decode
// request may come first it must be one the router knows beforehand.
func (c *call) keepKey(kv *kvParams) string {
	switch {
	case kv.TransferID != "":
		return kv.TransferID
	case c.cfg.KVPush:
		return c.id
	}
	return fmt.Sprintf("%s-%08x", c.id, rand.Uint32()) // ids of clients may repeat
}

// handover is kv_transfer_params of g's answer; nil for a request that isn't a
// prefill, JSON's null if there is nothing to say.
func (c *call) handover(g *generation) json.RawMessage {
	if g.kv == nil || !g.kv.RemoteDecode {
		return nil
	}
	if g.job.keep == "" || g.kv.TransferID != "" {
		return noHandover
	}
	r := kvReply{
		RemotePrefill: true, EngineID: c.engine.id, RequestID: g.job.keep, TPSize: 1,
		BlockIDs: [][]int{make([]int, g.job.held())},
	}
	if c.cfg.KVPush {
		r.TransferMode = "push"
	}
	first := int(g.job.prompts[0].print % (1 << 20)) // any number does
	for i := range r.BlockIDs[0] {
		r.BlockIDs[0][i] = first + i
	}
	r.Host, r.Port = c.address()
	body, _ := json.Marshal(r) // strings and numbers only
	return body
}

// address is where this worker was reached, for workers in other processes; port
// 0 if it wasn't by TCP.
func (c *call) address() (string, int) {
	addr, ok := c.req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return "127.0.0.1", 0
	}
	return addr.IP.String(), addr.Port
}

// source is where a decode request's blocks are. Its peer is nil if the params
// don't say.
type source struct {
	peer peer
	key  string
	wait bool // the prefill may be yet to come
}

func (kv *kvParams) source() source {
	s := source{key: kv.RequestID, wait: len(kv.BlockIDs) == 0}
	base := "http://" + net.JoinHostPort(kv.Host, strconv.Itoa(kv.Port))
	whole := kv.Host != "" && kv.Port != 0
	if kv.TransferID != "" {
		s.key, s.wait, base = kv.TransferID, true, kv.BootstrapAddr
		whole = base != ""
	}
	if !whole || s.key == "" || kv.EngineID == "" {
		return source{}
	}
	if e := findEngine(kv.EngineID); e != nil {
		s.peer = e
	} else {
		s.peer = remoteEngine{base: base, id: kv.EngineID}
	}
	return s
}
