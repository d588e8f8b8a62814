package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc, which Linux keeps at 10 ms for programs
// whatever its own is.
const tick = 10 * time.Millisecond

// family is a process and its descendants.
func family(pid int) []int {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if fields := statFields(text); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// statFields are the fields of /proc/PID/stat behind the program's name, from the
// state on; the name may contain anything.
func statFields(text []byte) []string {
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return nil
	}
	return strings.Fields(string(text[i+1:]))
}

// cpuOf adds up the CPU time of processes.
func cpuOf(pids []int) (time.Duration, error) {
	total := int64(0)
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		fields := statFields(text)
		if len(fields) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields behind the name: the 12th and 13th are needed", pid, len(fields))
		}
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return time.Duration(total) * tick, nil
}

// memoryOf adds up the memory of processes.
func memoryOf(pids []int) (int64, error) {
	total := int64(0)
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		_, rest, found := strings.Cut(string(text), "\nPss:")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			return 0, fmt.Errorf("/proc/%d/smaps_rollup has no line Pss", pid)
		}
		kb, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, err
		}
		total += kb << 10
	}
	return total, nil
}
