// Package load sends requests to an inference server and measures what its
// clients would notice: the time to the first token, between tokens and to the
// end, and which answers failed or were cut short.
//
// A closed loop keeps a fixed number of requests under way: each connection
// sends the next one when the last is answered, and times count from sending. An
// open loop sends when an Arrivals says so, whatever became of earlier requests,
// and times count from when a request was due, so that a server that stalls is
// charged with the waiting of all who came meanwhile, and so is a generator that
// is late, which the report tells apart.
//
// HTTP/1.1 is spoken over bare sockets with one goroutine each, because the
// generator shares a small machine with what it measures. Events that come in
// one read of the socket get the same time.
package load
