// Package zmq keeps a fleet of prefill and decode workers that register
// themselves over ZeroMQ.
//
// A worker connects a DEALER socket to the router and sends one msgpack map
// every few seconds. The first such ping registers it, later ones renew the
// registration, and one that stays away too long ends it: there is no message
// for leaving. The router never answers.
//
// # Goroutines
//
// One accepts connections, and one for each connection reads and checks pings.
// One, the loop, owns the table of registrations. One calls the Fleet, a call at
// a time, and one writes the log.
//
//   - The loop does no I/O and never blocks on a send. So readers may block on
//     its inbox: a full one only means that a moment later their turn comes, and
//     a worker that floods is held back by its own connection.
//   - A Fleet that takes its time delays other calls to the Fleet, never a ping.
//     Between calls the loop keeps no queue of events but the difference between
//     what workers said last and what the Fleet was told last, so nothing piles
//     up and nothing is lost.
//   - Expiry is counted in ticks of the monotonic clock. Ticks that the process
//     slept through don't count, so a router that was stopped for a minute does
//     not take its own silence for that of its workers.
//
// # Trust
//
// The NULL mechanism of ZeroMQ has no authentication: who reaches the port can
// add workers, and will be sent prompts. Bind it to a private network. Bytes are
// not trusted: connections, frames, registrations, texts and sizes are bounded,
// and a message that breaks a rule is dropped and logged, at a limited rate.
package zmq
