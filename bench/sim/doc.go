// Package sim simulates the router's own policies before workers, event by event,
// without sockets, goroutines or a clock: two minutes of a fleet take less than a
// second, and the same seed always gives the same.
//
// # Workers
//
// A worker prefills one prompt at a time, in the order in which they come, at a
// fixed rate, and only the blocks that its cache lacks. The cache is an LRU set of
// blocks; a prompt enters it when it is prefilled. The first token comes with the
// end of the prefill, the others at a fixed pace that costs the worker nothing: a
// batch is never full. Answers don't enter the cache, so the next turn of a
// conversation prefills the one before.
//
// # Router
//
// Policies are those of actors/policy and see what the registry and the tree would
// show them: the longest known prefix per worker, from a prefixtree that learns a
// prompt when it is granted; the requests under way; and the blocks granted and not
// yet prefilled, each lease's share being what the worker was thought to lack, given
// back with the first token. At its end an answer tells what was cached, of which the
// router's actors/learn learns what workers keep; it knows how fast they are.
// What a busy worker can't begin yet is kept in the router as there, but not in
// Reference. Nothing else is there: no other router's load, no limits, no failures,
// no retries, and a choice takes no time.
//
// Ties go by the prompt's first 16 blocks, as in the router, and by the workers'
// URLs, which differ between seeds.
//
// Formulas beside them are rules that others use; see Rules.
//
// # Figures
//
// Times to the first token run from a request's arrival. The hit ratio is cached of
// all prompt blocks; beside it stands that of one endless cache. A table has the
// medians of all seeds, and of the mean times the least and the most. At saturation
// times grow with the length of the run, and only their order says something.
//
// # Against the figures that routing was designed with
//
// Reference has their scenarios. They come out again, in the same order but for
// rules that lie within a few per cent of each other, with two things that the
// figures don't tell: a conversation goes on as soon as it is answered (250 ms stand
// for that here; a second, as in replay, has more conversations under way at once
// and fewer hits), and the answers of the trace have their real lengths at about
// 25 ms a token, which is what makes rules that count requests bad there.
package sim
