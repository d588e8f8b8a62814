package proxy

import (
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestPairRescueAfterADialThatHangs: a client that leaves while nobody has seen the
// decode request leaves blocks behind. Another decode worker frees them.
func TestPairRescueAfterADialThatHangs(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		f := startFleet(t, patientChecks(policy), 1, heldPrefill, nil, inPrefill)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		f.until("a place at the decode worker", func() bool { return f.sum().reserved == 1 })
		second := proxytest.NewWorker(t, decodeBeside(rescuing(heldPlain, decodeEither)))
		f.enlist(actors.Decode, second)
		f.before[second.URL()] = loadJSON{}
		hung := f.decode[0]
		f.decode = append(f.decode, second)
		hung.Stop()
		proxytest.Hang(t, hung.Addr())
		release(f.prefill...)
		f.until("the decode request to be on its way", func() bool { return f.loads()[hung.URL()].decoding == 2 })
		c.CloseFIN()
		f.waitSeen(1, 1)
		f.wantRescue(f.decodes()[0])
		if got := f.loads(); got[second.URL()].decoding != 1 || got[hung.URL()] != f.before[hung.URL()] {
			t.Errorf("loads %v, want the rescue at %s and nothing new at %s", got, second.URL(), hung.URL())
		}
		f.wantBlocks(0, 0)
		release(second)
		f.untouched()
		f.wantBlocks(1, 0)
		f.ended(actors.ClientGone)
		f.finish()
	})
}

// TestPairDialThatHangs: a decode worker that takes no connection in time is
// replaced by another, which fetches the same blocks.
func TestPairDialThatHangs(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		o := patientChecks(policy)
		o.Timeouts.Connect = brief
		f := startFleet(t, o, 2, heldPrefill, nil, inPrefill)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		hung := f.reserved()
		hung.Stop()
		proxytest.Hang(t, hung.Addr())
		release(f.prefill...)
		if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
			t.Errorf("answer %+v, %v; want a whole 200", got, err)
		}
		f.wantSeen(1, 1)
		f.wantHandover(f.decodes()[0])
		f.finish()
		f.wantBlocks(0, 0)
	})
}
