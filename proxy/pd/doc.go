// Package pd is what prefill/decode does to bytes: the bodies of the two
// requests that one request becomes, the transfer parameters by which their
// workers find each other, and what the client gets of the two answers. It does
// no I/O, reads no clock and keeps no state.
//
// # Bodies
//
// Bodies are edited, not re-encoded: a worker gets the client's bytes but for
// the members that prefill/decode has to change. The prefill worker is asked for
// one token, because its answer is the prompt's blocks and not text; min_tokens
// is 1 as well, so that the token can't be one that ends the text early, upon
// which the engine would drop the blocks. A client's own kv_transfer_params would
// let it read other requests' blocks and never passes.
//
// # Answers
//
// The client gets the decode worker's answer. What it says of the prompt is
// wrong, since transferred blocks look cached there: usage is put right from the
// prefill worker's answer, and prompt logprobs are taken from there. Its transfer
// parameters are the workers' own affair and become null. A stream that echoes
// its prompt with logprobs is not put together: it would have to be held back.
//
// # Trust
//
// Workers are trusted to be wrong. Replies that are not JSON, of other types or
// endless cost linear time and bounded memory, and leave the client with the
// decode worker's bytes.
package pd
