package alarm

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// precise is a timer that is a file.
type precise struct {
	file *os.File
	fd   int
}

func newPrecise(ring func()) (clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	p := precise{os.NewFile(uintptr(fd), "alarm"), fd}
	go func() {
		var times [8]byte
		for {
			if _, err := p.file.Read(times[:]); err != nil {
				return // closed
			}
			ring()
		}
	}()
	return p, nil
}

func (p precise) Set(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	_ = unix.TimerfdSettime(p.fd, 0, &at, nil) // can't fail with a valid time
}

func (p precise) Close() { _ = p.file.Close() }
