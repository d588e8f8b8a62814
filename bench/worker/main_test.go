package worker

import (
	"os"
	"testing"

	"loadstar/bench/alarm"
)

func TestMain(m *testing.M) {
	newAlarm = alarm.Usual
	os.Exit(m.Run())
}
