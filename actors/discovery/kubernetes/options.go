package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"loadstar/actors"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Options says which pods are workers, and of which kind. The zero value of a field
// that names a default stands for it.
type Options struct {
	Selector  string // label selector, such as app=vllm,tier=gpu
	Namespace string // empty for all
	Roles     actors.Roles
	Port      int // at which the pods serve
	Bootstrap int // port of a prefill worker's bootstrap server, where its pod doesn't say; 0 for none

	WatchFor time.Duration // how long a watch lasts at most; 290 s by default
	grace    time.Duration // for a server to end a watch that is over; 30 s by default
	maxPods  int           // in a list; maxPods by default
	backoff  *wait.Backoff // between attempts; nil for the library's, which grows to 30 s
}

const (
	defaultWatchFor = 290 * time.Second // the server's default is from five to ten minutes
	watchGrace      = 30 * time.Second
)

// Selector makes of pairs key=value, several of which may be joined by commas, the
// selector of pods that have all of them. There must be one at least.
func Selector(pairs []string) (string, error) {
	set := labels.Set{}
	for _, joined := range pairs {
		for pair := range strings.SplitSeq(joined, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return "", fmt.Errorf("%q is not a label: write KEY=VALUE", pair)
			}
			if old, twice := set[key]; twice && old != value {
				return "", fmt.Errorf("the label %q has two values, %q and %q: no pod has both", key, old, value)
			}
			set[key] = value
		}
	}
	if len(set) == 0 {
		return "", errors.New("no label is given: write KEY=VALUE")
	}
	s, err := labels.ValidatedSelectorFromSet(set)
	if err != nil {
		return "", fmt.Errorf("not labels: %w", err)
	}
	return s.String(), nil
}
