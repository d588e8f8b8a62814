// Package continuation has a stream of generated text that its worker has left
// unfinished go on at another worker, in one piece for who reads it.
//
// # How
//
// A Request says of a request's body whether a stream that answers it may be
// continued at all, and makes the body of the request for the rest: the text so
// far becomes a part of the prompt, or a message of the assistant that is to be
// completed, and what was generated is taken off the limits. No other byte of the
// body changes.
//
// A Follower reads the stream as it passes. It holds back an event that has not
// come whole, and remembers the text. Of a first part every byte passes as it is.
// In the events of later parts id, created and model become those of the first, a
// second announcement of the role is left out, and usage is summed.
//
// # What is remembered
//
// The text stays in the form in which it came, as the inside of JSON strings: so
// it can be put into another string without being read, and halves of a surrogate
// pair that came in two events meet again.
//
// # How tokens are counted
//
// By the usage in the events where the client has asked for that (vLLM's
// continuous_usage_stats), otherwise an event with text counts as one token.
// Engines that put several tokens into an event are counted short, so the whole
// answer may then be longer than the request's limit by as many tokens as were
// not seen; it is never shorter.
package continuation
