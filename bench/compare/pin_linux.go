package compare

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// cpus are the cores that this process may use, in order.
func cpus() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var all []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	return all, nil
}

// startOn starts a process that may use these cores only. It inherits them from
// the thread that starts it.
func startOn(cmd *exec.Cmd, cores []int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, i := range cores {
		set.Set(i)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	err := cmd.Start()
	if errBack := unix.SchedSetaffinity(0, &before); err == nil {
		err = errBack
	}
	return err
}
