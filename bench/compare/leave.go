package compare

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"loadstar/bench/load"
)

const (
	leaveTimeout = time.Second // for a worker to see that a client has left
	leaveGiveUp  = 3           // unseen leavings in a row, after which no more are tried
	settle       = 2 * time.Millisecond
)

// leave measures the time from a client's leaving to its worker's seeing it.
func leave(ctx context.Context, r *running, seen <-chan sighting, ask, metric string, times, round int) ([]Sample, error) {
	var all []time.Duration
	unseen, inRow := 0, 0
	for i := range times {
		d, err := leaveOnce(ctx, r.address, seen, fmt.Sprintf("%s%d", ask, i))
		switch {
		case errors.Is(err, errUnseen):
			unseen++
			inRow++
		case err != nil:
			return nil, err
		default:
			all = append(all, d)
			inRow = 0
		}
		if inRow == leaveGiveUp {
			break
		}
	}
	half := Sample{Metric: metric, Router: r.peer.name, Round: round, Requests: uint64(len(all) + unseen), Failed: uint64(unseen)}
	if unseen > 0 {
		half.Note = fmt.Sprintf("%d of %d not seen within %v", unseen, len(all)+unseen, leaveTimeout)
	}
	tail := half
	tail.Metric += LeaveTail
	if len(all) > 0 {
		half.Value, tail.Value = load.Quantile(all, .5), load.Quantile(all, .99)
	}
	return []Sample{half, tail}, nil
}

var errUnseen = errors.New("the worker didn't see its client leave")

func leaveOnce(ctx context.Context, address string, seen <-chan sighting, id string) (time.Duration, error) {
	c, err := dial(address, load.Chat{Model: "null", Bytes: 200, Stream: true, Start: id + "]"})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := await(ctx, seen, sighting{id: id}, 5*time.Second); err != nil {
		return 0, fmt.Errorf("request %s: %w", id, err)
	}
	if strings.HasPrefix(id, askStall) {
		if err := untilEvent(c); err != nil {
			return 0, err
		}
	}
	time.Sleep(settle)
	left := time.Now()
	_ = c.Close()
	at, err := await(ctx, seen, sighting{id: id, left: true}, leaveTimeout)
	return at.Sub(left), err
}

// await waits for a sighting. Others are left over from before.
func await(ctx context.Context, seen <-chan sighting, want sighting, longest time.Duration) (time.Time, error) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		select {
		case s := <-seen:
			if s.id == want.id && s.left == want.left {
				return s.at, nil
			}
		case <-timer.C:
			if want.left {
				return time.Time{}, errUnseen
			}
			return time.Time{}, errors.New("it didn't come to a worker")
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}
