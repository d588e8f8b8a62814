package alarm

import "time"

// Alarm goes off when it was last set to. Make one with New.
type Alarm struct {
	// C gets a value when the alarm goes off. One of an earlier setting may be left in
	// it: who gets it looks at the clock.
	C <-chan struct{}

	clock
}

// clock is what an alarm is made of.
type clock interface {
	// Set has the alarm go off after d, at once if that isn't positive, and at no other
	// time.
	Set(d time.Duration)
	// Close ends the alarm, which then never goes off.
	Close()
}

// New is an alarm that isn't set. It is Usual where the system has nothing better to
// give.
func New() *Alarm {
	c := make(chan struct{}, 1)
	if p, err := newPrecise(ringing(c)); err == nil {
		return &Alarm{c, p}
	}
	return Usual()
}

// Usual is the runtime's timer, which package synctest can turn.
func Usual() *Alarm {
	c := make(chan struct{}, 1)
	u := usual{time.AfterFunc(time.Hour, ringing(c))}
	u.timer.Stop()
	return &Alarm{c, u}
}

func ringing(c chan<- struct{}) func() {
	return func() {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// usual is the runtime's timer.
type usual struct{ timer *time.Timer }

func (u usual) Set(d time.Duration) { u.timer.Reset(d) }

func (u usual) Close() { u.timer.Stop() }
