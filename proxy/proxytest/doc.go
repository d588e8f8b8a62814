// Package proxytest holds both ends of a router under test: a scripted HTTP/1.1
// worker and a raw client, each on plain sockets so that they can misbehave in
// any way and so that what they saw is exactly what was on the wire.
//
// # The worker
//
// [NewWorker] listens on a free loopback port and runs a [Script] for each
// request. One goroutine per connection reads all the time, whatever the script
// does, so the peer's FIN or RST is seen at once: [Exchange.PeerClosed].
//
// # What counts as in flight
//
// A request is in flight from the arrival of the last byte of its head (queued
// pipelined requests too) until the first of: the last byte of its answer, the
// SSE end mark written by [Exchange.Done], its peer's FIN or RST, the worker
// closing the connection. The count drops in the same critical section that
// hands the deciding byte to the kernel, so whoever has read the whole answer
// finds the request gone from [Worker.InFlight], and nobody finds it gone
// earlier. GET /health is counted apart, in [Worker.HealthChecks], and nowhere
// else.
//
// # The client
//
// [Dial] gives a [Client] that sends any bytes and reads answers strictly: what
// it returns says whether the answer ended as its framing promised. A goroutine
// per client reads ahead, so arrival times are those of the network and not of
// the test's next call.
//
// Both parse strictly: bare line feeds, folded headers, two lengths or a length
// beside chunked framing are faults. A worker's faults fail the test at its end
// unless the test took them with [Worker.TakeFaults].
package proxytest
