package proxy

import (
	"loadstar/actors"
	"loadstar/proxy/orca"
)

// askLoad is the header line by which this router asks a worker how many requests it
// has, in the format in which a server of several engines tells of all. A client's own
// goes as it is, in place of this one.
const askLoad = orca.FormatHeader + ": TEXT\r\n"

// hearReport has choices heed how many requests the worker says it has, if it says so
// in the head of its answer. The lease is live, so it is known what of them is ours.
func (g *leg) hearReport(worker actors.WorkerID) {
	if g.answer.Report == nil {
		return
	}
	n, ok := orca.Requests(g.answer.Report)
	if !ok {
		g.p.metrics.reportsUnused.Inc()
		return
	}
	g.p.metrics.reportsUsed.Inc()
	g.p.router.WorkerSays(worker, n, g.p.now())
}

// appendLines appends the answer's header lines for the client, without what it
// didn't ask for.
func (g *leg) appendLines(dst []byte) []byte {
	if g.asks {
		return g.answer.AppendLines(dst, carrier, orca.Header)
	}
	return g.answer.AppendLines(dst, carrier)
}
