package proxy

import "golang.org/x/sys/unix"

// descriptorLimit is the most open files that this process may have. The Go runtime
// has raised the soft limit to the hard one by then.
func descriptorLimit() (n uint64, ok bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return l.Cur, true
}
