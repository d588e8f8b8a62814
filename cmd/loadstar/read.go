package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// pipeWait is how long one who writes into a pipe, given in place of a file, may take
// for all of it.
const pipeWait = time.Second

// readBounded reads a file of at most limit bytes. A pipe that nobody writes to is
// empty or an error: whoever waited for it would read no other file again.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(pipeWait)) // what is no pipe has none and needs none
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, nil
}
