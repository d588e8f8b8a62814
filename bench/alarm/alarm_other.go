//go:build !linux

package alarm

import "errors"

func newPrecise(func()) (clock, error) { return nil, errors.ErrUnsupported }
