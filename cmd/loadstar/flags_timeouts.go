package main

import "time"

// maxPoolIdle stays below the five seconds after which engines close an idle
// connection, so that a request is never sent into one that is about to close.
const maxPoolIdle = 4 * time.Second

// timeoutOptions is how long workers may take. --request-timeout-secs is read
// first: it is the default of three others.
func timeoutOptions(t *timeoutsConfig) []*option {
	const category = "timeouts"
	const none = "; 0 or none waits for ever"
	return []*option{
		{
			name: "request-timeout-secs", arg: "SECONDS", category: category, def: "1800",
			usage:   "wait so long for an answer's first byte and for each next one, where no other flag says" + none,
			differs: "the whole answer must fit into it there, which cuts long streams; 0 is refused there",
			one:     readRequestTimeout(t),
		},
		{
			name: "connect-timeout-secs", arg: "SECONDS", category: category, def: "10", from: ours,
			usage: "wait so long for a connection to a worker" + none,
			one:   readSecondsOrNone(&t.Connect),
		},
		{
			name: "first-byte-timeout-secs", arg: "SECONDS", category: category, implied: "--request-timeout-secs", from: ours,
			usage: "wait so long, or up to a quarter longer, for an answer's first byte" + none,
			one:   readSecondsOrNone(&t.FirstByte),
		},
		{
			name: "idle-timeout-secs", arg: "SECONDS", category: category, implied: "--request-timeout-secs", from: ours,
			usage: "wait so long, or up to a quarter longer, between two bytes of an answer" + none,
			one:   readSecondsOrNone(&t.Idle),
		},
		{
			name: "total-timeout-secs", arg: "SECONDS", category: category, def: "none", from: ours,
			usage: "end a request SECONDS after it was first given a worker, its stream and all attempts included; 0 or none never does",
			one:   readSecondsOrNone(&t.Total),
		},
		{
			name: "heartbeat-secs", arg: "SECONDS", category: category, def: "none", from: ours,
			usage: "send a comment to the client of an event stream that is silent for SECONDS, and again; 0 or none never does",
			one:   readSecondsOrNone(&t.Heartbeat),
		},
		{
			name: "pool-idle-timeout-secs", arg: "SECONDS", category: category, def: "2", from: rust,
			usage:   "close a connection to a worker that was unused for SECONDS, at most 4; 0 uses each connection once",
			differs: "at most 4 here, since engines close after 5",
			one:     readSeconds(&t.PoolIdle, 0, maxPoolIdle),
		},
	}
}

// readRequestTimeout reads the timeout that others take for their default.
func readRequestTimeout(t *timeoutsConfig) func(string) error {
	read := readSecondsOrNone(&t.Request)
	return func(value string) error {
		err := read(value)
		t.FirstByte, t.Idle, t.Prefill = t.Request, t.Request, t.Request
		return err
	}
}

// clientOptions is how long clients may take.
func clientOptions(t *timeoutsConfig) []*option {
	const category = "timeouts towards clients"
	const none = "; 0 or none waits for ever"
	return []*option{
		{
			name: "client-header-timeout-secs", arg: "SECONDS", category: category, def: "10", from: ours,
			usage: "close a connection whose request head, with the first 8 KiB of a body of known length, takes longer" + none,
			one:   readSecondsOrNone(&t.ClientHeader),
		},
		{
			name: "client-body-timeout-secs", arg: "SECONDS", category: category, def: "60", from: ours,
			usage: "close a connection that is silent for so long within a request body" + none,
			one:   readSecondsOrNone(&t.ClientBody),
		},
		{
			name: "client-write-timeout-secs", arg: "SECONDS", category: category, def: "60", from: ours,
			usage: "close a connection that takes nothing of its answer for so long" + none,
			one:   readSecondsOrNone(&t.ClientWrite),
		},
		{
			name: "client-idle-timeout-secs", arg: "SECONDS", category: category, def: "75", from: ours,
			usage: "close a connection that has no request for so long",
			one:   readSeconds(&t.ClientIdle, shortest, longest),
		},
	}
}

// shutdownOptions is what a termination signal starts.
func shutdownOptions(s *shutdownConfig) []*option {
	const category = "shutdown"
	return []*option{
		{
			name: "shutdown-delay-secs", arg: "SECONDS", category: category, def: "0", from: ours,
			usage: "after a termination signal, answer /readiness with 503 and still take requests for SECONDS",
			one:   readSeconds(&s.Delay, 0, longest),
		},
		{
			name: "shutdown-grace-period-secs", arg: "SECONDS", category: category, def: "300", from: ours,
			usage: "then let running requests end for at most SECONDS; 0 cuts them at once",
			one:   readSeconds(&s.Grace, 0, longest),
		},
		{
			name: "takeover", arg: "PATH", category: category, from: ours,
			usage: "take the listening sockets over from the router that was started with the same PATH, if there is one, once a worker is healthy here; " +
				"it then finishes what it has and ends; PATH is a Unix socket of this router's own, in a directory that exists",
			one: readTakeover(&s.Takeover),
		},
	}
}
