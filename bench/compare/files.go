package compare

import "syscall"

// RaiseFiles raises the limit of open files as far as it may be, for the processes
// that are started as well, and returns it.
func RaiseFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	// Go raises its own limit without this, but gives children what it was before.
	return int(min(limit.Cur, 1<<20)), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
