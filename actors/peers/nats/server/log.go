package server

import (
	"fmt"
	"strings"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// Bounds of what is told.
const (
	waitingEvents = 256
	burst         = 10               // warnings at a time
	refill        = 10 * time.Second // until one more may be told
)

// log is the library's log. It is called by the library's goroutines, and never waits.
type log struct {
	events chan<- Event
	fatal  chan error        // holds the first one
	hide   *strings.Replacer // of secrets: some errors show what has come
}

func newLog(events chan<- Event, o *Options) *log {
	var pairs []string
	for _, secret := range []string{o.Password, o.Token} {
		if secret != "" {
			pairs = append(pairs, secret, "…")
		}
	}
	if o.User != "" {
		pairs = append(pairs, "user:"+o.User, "user:…")
	}
	return &log{events: events, fatal: make(chan error, 1), hide: strings.NewReplacer(pairs...)}
}

// Noticef implements the library's Logger, as the others do. Notices are of what the
// peers' own events tell better.
func (l *log) Noticef(format string, v ...any) { l.put(Debug, format, v) }

// Warnf is for what is unusual.
func (l *log) Warnf(format string, v ...any) { l.put(Warning, format, v) }

// Errorf is for errors of connections, mostly, which end nothing here.
func (l *log) Errorf(format string, v ...any) {
	if len(v) == 2 && v[0] == any(natsd.ErrAuthentication) {
		// The user's name that follows may be a secret in the wrong place.
		format, v = strings.TrimSuffix(format, " - %s"), v[:1]
	}
	l.put(Warning, format, v)
}

// Fatalf is for what a server of its own would end with.
func (l *log) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
		l.put(Warning, format, v)
	}
}

// Debugf is never called.
func (l *log) Debugf(string, ...any) {}

// Tracef is never called.
func (l *log) Tracef(string, ...any) {}

func (l *log) put(level Level, format string, v []any) {
	select {
	case l.events <- Event{Level: level, Text: l.hide.Replace(fmt.Sprintf(format, v...))}:
	default: // so many that nobody reads them
	}
}

// limiter bounds what is told above Debug.
type limiter struct {
	left int
	at   time.Time // of the last refill
	more int
}

// pass reports whether e is told, and puts into it how many weren't.
func (l *limiter) pass(e *Event, now time.Time) bool {
	if e.Level == Debug {
		return true
	}
	if n := int(now.Sub(l.at) / refill); n > 0 {
		l.left, l.at = min(burst, l.left+n), l.at.Add(time.Duration(n)*refill)
	}
	if l.left == 0 {
		l.more++
		return false
	}
	l.left--
	e.More, l.more = l.more, 0
	return true
}
