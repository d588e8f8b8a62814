package proxytest

import "errors"

// What can be wrong with an answer. An error of a Client is one of these, or
// wraps several: a reset in the middle of a body is ErrTruncated and ErrReset.
var (
	// ErrTruncated says that the connection ended before the answer did.
	ErrTruncated = errors.New("connection ended before the answer did")
	// ErrNoAnswer says that the connection ended before the first byte of an answer.
	ErrNoAnswer = errors.New("connection ended before any byte of an answer")
	// ErrReset says that the connection was ended by an RST.
	ErrReset = errors.New("connection reset by peer")
	// ErrTimeout says that nothing more came in the time given.
	ErrTimeout = errors.New("no answer in time")
	// ErrMalformed says that the bytes are not an HTTP/1.x answer.
	ErrMalformed = errors.New("malformed answer")
)
