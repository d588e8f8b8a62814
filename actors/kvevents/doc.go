// Package kvevents knows which blocks of tokens are in workers' KV caches, from the
// events that the workers publish themselves.
//
// vLLM publishes over ZeroMQ, in msgpack, each block of its prefix cache that it
// stores or evicts, with the block's tokens, and answers on a second socket for
// batches that somebody has missed. One goroutine for each such source reads, decodes
// and hashes. One, the index, owns what is held where, and answers for a prompt whose
// tokens are known how far each worker has it. It does no I/O and never blocks on a
// send.
//
// # How far it can be relied on
//
// Batches are numbered. A gap is filled by a replay; where none can be had, all that
// is known of the worker is dropped. Numbers that go back on one connection are those
// of another process: the source is connected to anew. So what is said to be held was
// held when the worker last spoke. That a block is not held is known only of a worker
// whose events have been followed since its first one, or since it emptied its cache:
// only of such a one a hit is Sure. A source that is cut off has no say until it is
// back.
//
// Blocks of other sizes, of layers that keep a window of the prompt only, and those
// whose hash has more in it than tokens and the adapter (images, a cache salt) are
// counted and left out.
//
// # Bounds
//
// What is kept is bounded by Options.MaxBlocks, the sources by MaxStreams, a batch by
// maxFrame. Connections are kept alive and tried again for ever, at growing distances.
// Peers are those that the operator has named, and speak without authentication; their
// bytes are not trusted.
package kvevents
