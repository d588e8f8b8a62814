package compare

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStatFields(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // the first two fields
	}{
		{"plain", "12 (sh) S 1 12", "S 1"},
		{"a name with spaces and brackets", "12 (a) b (c)) R 7 12", "R 7"},
		{"no name", "12 S 1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields := statFields([]byte(tt.text))
			if got := strings.Join(fields[:min(2, len(fields))], " "); got != tt.want {
				t.Errorf("the fields are %q, want %q", got, tt.want)
			}
		})
	}
}

// A process is found with its child, on the core it was put on, and is gone with
// its group when it is ended.
func TestProcess(t *testing.T) {
	runtime.LockOSThread() // the thread that starts it is looked at after
	defer runtime.UnlockOSThread()
	cores := twoCores(t)
	p, err := start(t.TempDir(), "sleep", cores[:1], []string{self(t), "sleep", "x"})
	if err != nil {
		t.Fatal(err)
	}
	mine := family(os.Getpid())
	if !slices.Contains(mine, p.pid()) || mine[0] != os.Getpid() {
		t.Errorf("the family of %d is %v, want it with %d", os.Getpid(), mine, p.pid())
	}
	if memory, err := memoryOf([]int{p.pid()}); err != nil || memory < 1<<16 {
		t.Errorf("its memory is %d, %v, want at least 64 kB", memory, err)
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid()) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Cpus_allowed_list:\t" + strconv.Itoa(cores[0]) + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("its status has no line %q", want)
	}
	p.end()
	if _, err := cpuOf([]int{p.pid()}); !os.IsNotExist(err) {
		t.Errorf("after its end the error is %v, want that it doesn't exist", err)
	}
	if after, err := cpus(); err != nil || !slices.Equal(after, cores) {
		t.Errorf("this process has the cores %v, want %v as before", after, cores)
	}
}

// CPU time is counted.
func TestCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	me := []int{os.Getpid()}
	before, err := cpuOf(me)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		after, err := cpuOf(me)
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v of CPU time before and after 20 s of work", after)
		}
	}
}
