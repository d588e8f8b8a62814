package proxy

import (
	"fmt"
	"io"
	"net"
	"time"

	"loadstar/actors/peers"
	"loadstar/actors/peers/nats"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
)

// PeersOptions says where the other routers are that this one shares its workers
// with.
type PeersOptions struct {
	Name      string   // of this router among them
	Group     string   // of those who tell each other
	Servers   []string // NATS servers' URLs
	CredsFile string   // for them; empty for none

	// Dial connects to a NATS server in this process, in place of Servers; nil if
	// there is none.
	Dial func() (net.Conn, error)
}

// JoinPeers begins to tell other routers what runs here, and to hear of them. It
// doesn't wait for a connection. It is called at most once, before Serve, and only
// where Options.Router.KeepPlacements is set.
func (p *Proxy) JoinPeers(o PeersOptions) {
	p.peers = peers.Start(peers.Options{
		Name: o.Name, Incarnation: uint64(time.Now().UnixNano()), MaxWorkers: p.opts.Router.MaxWorkers, Now: p.now, Tell: p.logPeers,
	}, p.router, func(r peers.Receiver) peers.Link {
		return nats.Open(nats.Options{Servers: o.Servers, CredsFile: o.CredsFile, Group: o.Group, Name: o.Name, Dial: o.Dial}, r)
	})
	p.routes["/peers"] = &route{class: pathAdmin, get: (*exchange).getPeers, admin: true}
}

// LeavePeers tells the other routers that nothing runs here, as far as they need to
// know: all of it has ended, or another process tells of it.
func (p *Proxy) LeavePeers() {
	if p.peers != nil {
		p.peers.Close()
	}
}

// logPeers writes down what happens among routers.
func (p *Proxy) logPeers(e peers.Event) {
	switch e.Kind {
	case peers.PeerCame:
		p.log.Info("another router has come", "peer", e.Name)
	case peers.PeerGone:
		p.log.Warn("another router is silent: what it ran counts no more", "peer", e.Name)
	case peers.LinkUp:
		if e.Err != nil {
			p.log.Error("NATS does not let this router tell or hear all it should", "server", e.Name, "error", e.Err)
			return
		}
		p.log.Info("connected to other routers", "server", e.Name)
	case peers.LinkLost:
		p.log.Warn("no connection to other routers: going on alone, and trying again", "error", e.Err)
	case peers.NamesakeHeard:
		p.log.Error("another router has this one's name, so neither hears the other: give each its own --peers-name", "name", e.Name)
	case peers.ForeignRefused:
		p.log.Error("what other routers run is not counted", "error", e.Err)
	}
}

// peerJSON is another router as the admin API shows it.
type peerJSON struct {
	Name     string  `json:"name"`
	Started  string  `json:"started"`
	Age      float64 `json:"age_seconds"` // of the last that was heard
	Lag      float64 `json:"lag_seconds"` // by which that was slower than the quickest
	Workers  int     `json:"workers"`     // at which it runs something
	Requests int     `json:"requests"`
	Pending  int     `json:"pending_blocks"`
	Decode   int     `json:"decode"`
}

// getPeers lists the other routers.
func (x *exchange) getPeers() {
	v, _ := x.p.peers.View()
	all := []peerJSON{}
	for _, e := range v.Peers {
		all = append(all, peerJSON{
			Name: e.Name, Started: time.Unix(0, int64(e.Incarnation)).UTC().Format(time.RFC3339),
			Age: e.Age.Seconds(), Lag: e.Lag.Seconds(),
			Workers: e.Workers, Requests: e.Requests, Pending: e.Pending, Decode: e.Decode,
		})
	}
	reason := ""
	if v.Link.Err != nil {
		reason = v.Link.Err.Error()
	}
	x.answerJSON(fasthttp.StatusOK, struct {
		Name      string     `json:"name"`
		Connected bool       `json:"connected"`
		Server    string     `json:"server,omitempty"`
		Error     string     `json:"error,omitempty"`
		Peers     []peerJSON `json:"peers"`
	}{v.Name, v.Link.Up, v.Link.Server, reason, all})
}

// writePeers writes what is known of other routers, if there may be any.
func (m *metricSet) writePeers(w io.Writer) {
	if m.p.peers == nil {
		return
	}
	v, ok := m.p.peers.View()
	if !ok {
		return
	}
	metrics.WriteGaugeUint64(w, "loadstar_peers", uint64(len(v.Peers)))
	metrics.WriteGaugeUint64(w, "loadstar_peers_connected", boolGauge(v.Link.Up))
	metrics.WriteGaugeFloat64(w, "loadstar_peers_staleness_seconds", v.Staleness().Seconds())
	for k := range peers.NumKinds {
		metrics.WriteCounterUint64(w, fmt.Sprintf("loadstar_peer_messages_total{direction=\"in\",kind=%q}", k), v.In[k])
		metrics.WriteCounterUint64(w, fmt.Sprintf("loadstar_peer_messages_total{direction=\"out\",kind=%q}", k), v.Out[k])
	}
	for _, d := range peers.Drops() {
		metrics.WriteCounterUint64(w, fmt.Sprintf("loadstar_peer_dropped_total{reason=%q}", d), v.Dropped[d])
	}
	if t, ok := m.p.router.TreeStats(); ok {
		metrics.WriteCounterUint64(w, "loadstar_tree_hints_total", t.Hints)
	}
}
