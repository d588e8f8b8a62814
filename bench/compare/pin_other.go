//go:build !linux

package compare

import (
	"errors"
	"os/exec"
)

var errLinux = errors.New("only Linux tells what is measured here (/proc, CPU affinity): run it there")

func cpus() ([]int, error) { return nil, errLinux }

func startOn(*exec.Cmd, []int) error { return errLinux }
