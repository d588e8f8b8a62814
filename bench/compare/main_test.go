package compare

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"loadstar/bench/bare"
	"loadstar/bench/worker/null"
)

// The tests' binary stands in for the bench program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		var err error
		switch os.Args[1] {
		case NullCommand:
			for _, a := range os.Args[3:] {
				go listen(a, null.Serve)
			}
			err = listen(os.Args[2], null.Serve)
		case BareCommand:
			err = listen(os.Args[2], func(ln net.Listener) error { return bare.Serve(ln, os.Args[3:]) })
		case "sleep":
			time.Sleep(time.Minute)
		default:
			os.Exit(m.Run())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func listen(address string, serve func(net.Listener) error) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ln)
}

// twoCores skips a test where what is measured can't be.
func twoCores(t *testing.T) []int {
	t.Helper()
	cores, err := cpus()
	if err != nil {
		t.Skip(err)
	}
	if len(cores) < 2 {
		t.Skip("one core only")
	}
	return cores
}

// self is this program, for tests that start it.
func self(t *testing.T) string {
	t.Helper()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
