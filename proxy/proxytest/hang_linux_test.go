package proxytest

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestHang: who connects waits, and others on other ports don't.
func TestHang(t *testing.T) {
	w := NewWorker(t, JSON(200, "{}"))
	w.Stop()
	Hang(t, w.Addr())
	for range 3 {
		c, err := net.DialTimeout("tcp", w.Addr(), 50*time.Millisecond)
		if err == nil {
			c.Close()
		}
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("a dial ends with %v, want its timeout", err)
		}
	}
	Do(t, NewWorker(t, JSON(200, "{}")).Addr(), Request{})
}
