package kvevents

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine that a test starts has ended when the tests have.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
