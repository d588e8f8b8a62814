package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstar/actors/workerurl"
)

// The longest times that flags take: far beyond any use, and well inside of what a
// time.Duration holds.
const (
	longest  = 1_000_000_000 * time.Second // some 31 years
	shortest = time.Millisecond
)

// readSwitch reads true or false in any case, or 1 or 0.
func readSwitch(dst *bool) func(string) error {
	return func(value string) error {
		v, err := strconv.ParseBool(strings.ToLower(value))
		if err != nil {
			return fmt.Errorf("%q is neither true nor false: give one of them", value)
		}
		*dst = v
		return nil
	}
}

// readWhole reads a whole number from low to high.
func readWhole[T int | int64](dst *T, low, high T) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < int64(low) || n > int64(high) {
			return fmt.Errorf("%q is not a whole number %s", value, bounds(int64(low), int64(high)))
		}
		*dst = T(n)
		return nil
	}
}

// bounds says which whole numbers are taken, leaving out a limit that is none.
func bounds(low, high int64) string {
	if high >= math.MaxInt {
		return fmt.Sprintf("of at least %d", low)
	}
	return fmt.Sprintf("from %d to %d", low, high)
}

// readDecimal reads a number from low to high, which may be infinite.
func readDecimal(dst *float64, low, high float64) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseFloat(value, 64)
		switch ok := err == nil && n >= low && n <= high && !math.IsInf(n, 0); {
		case ok:
			*dst = n
			return nil
		case math.IsInf(high, 1):
			return fmt.Errorf("%q is not a number of at least %g", value, low)
		default:
			return fmt.Errorf("%q is not a number from %g to %g", value, low, high)
		}
	}
}

// readSeconds reads a number of seconds, with or without a fraction.
func readSeconds(dst *time.Duration, low, high time.Duration) func(string) error {
	return func(value string) error {
		d, ok := parseSeconds(value)
		if !ok || d < low || d > high {
			return fmt.Errorf("%q is not a number of seconds from %s to %s", value, showSeconds(low), showSeconds(high))
		}
		*dst = d
		return nil
	}
}

// readSecondsOrNone reads a number of seconds; 0 and none both mean none, which is zero.
func readSecondsOrNone(dst *time.Duration) func(string) error {
	return func(value string) error {
		d, ok := parseSeconds(value)
		if strings.EqualFold(value, "none") {
			d, ok = 0, true
		}
		if !ok || (d != 0 && d < shortest) || d > longest {
			return fmt.Errorf("%q is not a number of seconds from %s to %s, or none", value, showSeconds(shortest), showSeconds(longest))
		}
		*dst = d
		return nil
	}
}

// parseSeconds takes digits with at most one point: no sign, exponent or unit.
func parseSeconds(value string) (time.Duration, bool) {
	if strings.Trim(value, "0123456789.") != "" {
		return 0, false
	}
	d, err := time.ParseDuration(value + "s")
	return d, err == nil
}

func showSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// readMillis reads a whole number of milliseconds, of at least one.
func readMillis(dst *time.Duration) func(string) error {
	return func(value string) error {
		const high = int64(longest / time.Millisecond)
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > high {
			return fmt.Errorf("%q is not a whole number of milliseconds from 1 to %d", value, high)
		}
		*dst = time.Duration(n) * time.Millisecond
		return nil
	}
}

// readMillisOrNone reads a whole number of milliseconds; 0 and none both mean none,
// which is zero.
func readMillisOrNone(dst *time.Duration) func(string) error {
	read := readMillis(dst)
	return func(value string) error {
		if value == "0" || strings.EqualFold(value, "none") {
			*dst = 0
			return nil
		}
		if err := read(value); err != nil {
			return fmt.Errorf("%w, or none", err)
		}
		return nil
	}
}

// orNone lets none, in any case, stand for one of the values that read takes.
func orNone(stands string, read func(string) error) func(string) error {
	return func(value string) error {
		if strings.EqualFold(value, "none") {
			value = stands
		}
		if err := read(value); err != nil {
			return fmt.Errorf("%w, or none", err)
		}
		return nil
	}
}

// readOneOf reads one of a few words. A word that the table of refusals knows as
// flag=word gets its sentence.
func readOneOf[T ~string](dst *T, flag string, words ...T) func(string) error {
	return func(value string) error {
		if slices.Contains(words, T(value)) {
			*dst = T(value)
			return nil
		}
		if r, ok := refused[flag+"="+value]; ok {
			return refusedValue{r, value}
		}
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		hint := ""
		if near := nearest(value, known); near != "" {
			hint = "did you mean " + near + "? "
		}
		return fmt.Errorf("%q is unknown: %sgive one of %s", value, hint, strings.Join(known, ", "))
	}
}

// readLevel reads a log level in the words of both front ends of vllm-router.
func readLevel(dst *slog.Level) func(string) error {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo,
		"warning": slog.LevelWarn, "warn": slog.LevelWarn,
		"error": slog.LevelError, "critical": slog.LevelError,
	}
	return func(value string) error {
		l, ok := levels[strings.ToLower(value)]
		if !ok {
			return fmt.Errorf("%q is not a log level: give one of debug, info, warning, error, critical", value)
		}
		*dst = l
		return nil
	}
}

// readText reads anything.
func readText(dst *string) func(string) error {
	return func(value string) error {
		*dst = value
		return nil
	}
}

// readKey reads a bearer key. Errors never quote it.
func readKey(dst *string) func(string) error {
	return func(value string) error {
		for _, c := range []byte(value) {
			if c <= ' ' || c > '~' {
				return errors.New("the key holds a space, a line end or another character that a bearer key cannot have: look for one at its end")
			}
		}
		*dst = value
		return nil
	}
}

// readPath reads the path of a URL.
func readPath(dst *string) func(string) error {
	return func(value string) error {
		if !strings.HasPrefix(value, "/") || strings.ContainsFunc(value, isSpaceOrControl) || strings.Contains(value, "#") {
			return fmt.Errorf("%q is not a path: write one that begins with a slash, such as /health", value)
		}
		*dst = value
		return nil
	}
}

// readHost reads an IP address, with or without brackets, or a host name.
func readHost(dst *string) func(string) error {
	return func(value string) error {
		h, ok := parseHost(value)
		if !ok {
			return fmt.Errorf("%q is neither an IP address nor a host name: write one, without scheme and port", value)
		}
		*dst = h
		return nil
	}
}

func parseHost(value string) (string, bool) {
	bare := value
	if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
		bare = value[1 : len(value)-1]
	}
	if _, err := netip.ParseAddr(bare); err == nil {
		return bare, true
	}
	return value, value != "" && workerurl.IsHostName(value)
}

// readListen reads an address of host and port.
func readListen(dst *listenConfig) func(string) error {
	return func(value string) error {
		h, p, err := net.SplitHostPort(value)
		bare, ok := parseHost(h)
		port, perr := strconv.ParseUint(p, 10, 16)
		if err != nil || perr != nil || !ok {
			return fmt.Errorf("%q is not an address: write HOST:PORT, such as 127.0.0.1:30000, or 0.0.0.0:30000 for every address of the machine", value)
		}
		*dst = listenConfig{Host: bare, Port: int(port)}
		return nil
	}
}

// isSpaceOrControl reports whether c would break a request line or a header.
func isSpaceOrControl(c rune) bool { return c <= ' ' || c == 0x7f }

// refusedValue is the error of a value that the table of refusals knows.
type refusedValue struct {
	refusal refusal
	value   string
}

// Error is the refusal of the value alone.
func (r refusedValue) Error() string { return r.refusal.error(r.value).Error() }

// of is the refusal with the flag or variable in front.
func (r refusedValue) of(subject string) error { return r.refusal.error(subject + " " + r.value) }
