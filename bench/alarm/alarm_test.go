package alarm

import (
	"testing"
	"time"
)

// each has a test run with what New takes, and with the runtime's timer.
func each(t *testing.T, test func(t *testing.T, a *Alarm)) {
	t.Helper()
	t.Run("best", func(t *testing.T) {
		a := New()
		t.Cleanup(a.Close)
		test(t, a)
	})
	t.Run("usual", func(t *testing.T) {
		a := Usual()
		t.Cleanup(a.Close)
		test(t, a)
	})
}

// wait is how long it takes until the alarm goes off.
func wait(t *testing.T, a *Alarm, since time.Time) time.Duration {
	t.Helper()
	select {
	case <-a.C:
		return time.Since(since)
	case <-time.After(10 * time.Second):
		t.Fatal("it doesn't go off")
		return 0
	}
}

func TestAlarm(t *testing.T) {
	each(t, func(t *testing.T, a *Alarm) {
		for _, d := range []time.Duration{time.Millisecond, 0, -time.Hour, 3 * time.Millisecond, time.Nanosecond} {
			since := time.Now()
			a.Set(d)
			if took := wait(t, a, since); took < d {
				t.Errorf("set to %v it goes off after %v", d, took)
			}
		}
	})
}

// A later setting takes the place of the one before.
func TestSetAgain(t *testing.T) {
	each(t, func(t *testing.T, a *Alarm) {
		since := time.Now()
		a.Set(time.Hour)
		a.Set(time.Millisecond)
		wait(t, a, since)
		since = time.Now()
		a.Set(time.Hour)
		a.Set(20 * time.Millisecond)
		if took := wait(t, a, since); took < 20*time.Millisecond {
			t.Errorf("it goes off after %v, want 20ms at least", took)
		}
		select {
		case <-a.C:
			t.Error("it goes off twice")
		case <-time.After(30 * time.Millisecond):
		}
	})
}

func TestClosed(t *testing.T) {
	each(t, func(t *testing.T, a *Alarm) {
		a.Set(time.Hour)
		a.Close()
		select {
		case <-a.C:
			t.Error("it goes off after its end")
		case <-time.After(20 * time.Millisecond):
		}
	})
}

// BenchmarkLate is how late it is, on average.
func BenchmarkLate(b *testing.B) {
	a := New()
	defer a.Close()
	late := time.Duration(0)
	for b.Loop() {
		const d = 1300 * time.Microsecond
		since := time.Now()
		a.Set(d)
		<-a.C
		late += time.Since(since) - d
	}
	b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late")
}
