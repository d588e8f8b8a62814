package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A service manager hears when clients are served and when that ends, and its reload
// ends nothing although there is nothing to read again.
func TestServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	boss, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	hear := func(want string) {
		t.Helper()
		if err := boss.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := boss.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("heard %q, %v, want %q", b[:n], err, want)
		}
	}
	t.Setenv("NOTIFY_SOCKET", path)
	_, urls := simulated(t, 1)
	cmd, out := start(t, `"listening"`, "--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-urls", urls[0])
	hear(managerReady)
	hup(t, cmd.Process)
	waitReady(t, listening(t, out))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear(managerStopping)
	if code := exitOf(t, cmd); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
