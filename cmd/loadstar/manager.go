package main

import (
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
)

// What a service manager is told, in the words of sd_notify(3).
const (
	managerReady    = "READY=1"
	managerStopping = "STOPPING=1"
)

// manager is the service manager that has started the process and waits to hear of
// it, systemd with Type=notify. It is the path of its socket, empty if there is none.
type manager string

func managerOf() manager { return manager(os.Getenv("NOTIFY_SOCKET")) }

// ready tells the manager that clients are served. From then on its reload, a
// SIGHUP, ends nothing, also where there is no file to be read again.
func (m manager) ready(log *slog.Logger) {
	if m == "" {
		return
	}
	signal.Ignore(syscall.SIGHUP)
	m.tell(managerReady, log)
}

// tell sends one state. What it can't be told it waits for, and says so itself.
func (m manager) tell(state string, log *slog.Logger) {
	if m == "" {
		return
	}
	conn, err := net.Dial("unixgram", string(m))
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		log.Warn("the service manager could not be told", "state", state, "error", err)
	}
}
