// Package peers has several routers take account of each other's requests.
//
// Each router tells what it runs at each worker, and which prompts it has placed
// where. What the others run is foreign load here: it weighs in choices, and is no
// part of any count of leases. What they have placed is a hint for the prefix tree.
// Nothing here is needed to route: a router that hears nobody goes on alone.
//
// # Figures
//
// Figures are absolute: requests at a worker, blocks of prompt pending there,
// requests in decode. Workers fall into 64 shards by a hash of their URL. A message
// holds all there is to say of some shards, with a sequence number; of each shard the
// message with the highest number counts, and a worker that it doesn't name has
// nothing. So each message stands for itself, whatever became of those before it:
// lost, late, repeated or in another order. Shards that have changed are told every
// 5 ms, every 20 ms while nothing runs, and all of them every 200 ms. What others tell
// counts within 5 ms.
//
// What was said of a shard counts for 900 ms, and a router that is silent for as long
// is dropped with all that it has said. Messages of an earlier incarnation of a router
// count for nothing, nor do those that were under way for longer: a message tells its
// age by its sender's clock, and the quickest ones give the difference of the clocks.
//
// # Goroutines
//
// The loop owns the table of peers, what was told last, and all counts. It does no
// I/O and reads no clock, and nothing blocks it, so readers may block on its inbox.
// The driver asks the registry and the tree, publishes, and hands sums to the
// registry. One more brings hints to the tree, within a budget. Messages are read by
// whoever brings them.
//
// # Trust
//
// Who can publish under a group's subjects can make workers look busy, and the
// prefix tree guess wrong; see that NATS lets only routers do so. They can not make a
// router grow beyond bounds: messages, peers, workers and hints are bounded, and what
// breaks a rule is dropped and counted. What one such message does is over in ten
// seconds.
package peers
