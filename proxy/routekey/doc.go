// Package routekey reads from a request body, in one pass and without
// unmarshalling it, what the router needs to place the request: the model, the
// stream flag, the session and the routing key.
//
// # What is read
//
// Only members of the outermost object count, and session_params.session_id; and, for
// who asks for identities of sessions, some in vllm_xargs and agent_hint.
// Names are compared after their escapes are resolved, and of members with the
// same name the last one wins, as it does for the engines. Values below the
// outermost object are stepped over by matching quotes and brackets and are not
// checked: judging a body is the worker's business, and a body that can't be
// read here is still forwarded, without a key.
//
// # The routing key
//
// The key stands for the bytes that become the prompt. The members that hold
// them (tools, messages, prompt and so on) are strung together in one fixed
// order, whatever their order in the body, and cut into blocks of 64 bytes. Each
// block's hash is chained to the one before, so that two keys with the same hash
// at one index have the same bytes up to that block, and a longest common prefix
// is a comparison of integers. Arrays lose their brackets and strings their
// quotes, so the key of a conversation's next turn extends the key of this one.
//
// The chain starts from the model, the cache salt and the adapter, because
// engines share no cache between different ones. The hash is fixed: the same
// body gives the same key in every process on every machine. It is made for
// speed and doesn't resist a client that looks for collisions; such a client
// gains a wrong guess of what is cached where, and nothing else.
//
// # Cost
//
// Time is linear in the body for every input, there is no recursion, and memory
// is bounded by the limit on hashed bytes. A Scanner that is used again doesn't
// allocate.
package routekey
