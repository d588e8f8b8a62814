package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneSource(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		s := r.Add("s")
		s.Say(named("b", "a"))
		r.want("two workers", "a=s b=s | bring b, bring a")
		s.Say(named("b", "a", "b"))
		r.want("the same, one twice", "a=s b=s |")
		s.Say(named("a/m", "c"))
		r.want("one less, one more, one changed", "a=s/m c=s | drain b, bring a, bring c")
		s.Say(named("b"))
		r.want("back", "b=s | drain a, drain c, bring b")
		s.Say(nil)
		r.want("none", "| drain b")
	})
}

// A worker that the fleet has by hand stays what it is, and comes to a source once it
// is gone.
func TestAddedByHand(t *testing.T) {
	bubble(t, Options{Retry: time.Second}, func(r *rig) {
		r.fleet.hand["a"] = true
		s := r.Add("s")
		s.Say(named("a"))
		r.want("named too", "| bring a")
		s.Say(nil)
		r.want("and no longer", "|")
		s.Say(named("a"))
		r.want("and again", "| bring a")
		r.fleet.set(func() { delete(r.fleet.hand, "a") })
		time.Sleep(1500 * time.Millisecond)
		r.want("removed by hand", "a=s | bring a")
		time.Sleep(time.Minute)
		r.want("a minute later", "a=s |")
		r.wantLogged("is not taken", 0)
	})
}

// What the fleet refuses is tried again, and told once.
func TestRefused(t *testing.T) {
	bubble(t, Options{Retry: time.Second}, func(r *rig) {
		r.fleet.refuse["a"] = errors.New("no room")
		s := r.Add("s")
		s.Say(named("a", "b"))
		r.want("at first", "b=s | bring a, bring b")
		time.Sleep(3500 * time.Millisecond)
		r.want("later", "b=s | bring a, bring a, bring a")
		r.wantLogged("no room", 1)
		if v := r.View()[0]; v.Workers != 2 || v.Errors != 1 {
			t.Errorf("the source has %+v, want 2 workers and 1 error", v)
		}
		r.fleet.set(func() { clear(r.fleet.refuse) })
		time.Sleep(time.Second)
		r.want("then", "a=s b=s | bring a")
		r.fleet.refuse["a"] = errors.New("no room")
		s.Say(named("a/m", "b"))
		r.want("changed and refused", "a=s b=s | bring a")
		s.Say(named("b"))
		r.want("gone, which the fleet still has as it was", "b=s | drain a")
	})
}

// Of two sources the first one decides, and the second takes over without a drain.
func TestTwoSources(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		first, second := r.Add("1"), r.Add("2")
		second.Say(named("a/y"))
		r.want("the second alone", "a=2/y | bring a")
		first.Say(named("a/x"))
		r.want("the first too", "a=2/y |")
		second.Say(nil)
		r.want("the second no longer", "a=1/x | bring a")
		second.Say(named("a/y"))
		r.want("the second again", "a=1/x |")
		first.Say(named("b"))
		r.want("the first another one", "a=2/y b=1 | bring a, bring b")
		first.Say(nil)
		r.want("the first nothing", "a=2/y | drain b")
		second.Say(nil)
		r.want("nobody", "| drain a")
	})
}

// A source that fails leaves what it said, and tells each fault once.
func TestFail(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		s := r.Add("s")
		s.Say(named("a"))
		for range 5 {
			s.Fail(errors.New("no answer"))
		}
		s.Failed()
		r.want("after errors", "a=s | bring a")
		r.wantLogged("no answer", 1)
		r.wantLogged("answers again", 0)
		time.Sleep(time.Minute)
		if v := r.View()[0]; v.Workers != 1 || v.Errors != 6 || time.Since(v.Last) != time.Minute {
			t.Errorf("the source has %+v, want 1 worker, 6 errors and an answer a minute ago", v)
		}
		s.Alive()
		r.wantLogged("answers again", 1)
		if v := r.View()[0]; time.Since(v.Last) != 0 {
			t.Errorf("its last answer was %v ago, want now", time.Since(v.Last))
		}
		s.Fail(errors.New("no answer"))
		r.wantLogged("no answer", 2)
	})
}

// Of too many workers those that are there stay, whatever their order.
func TestTooMany(t *testing.T) {
	bubble(t, Options{MaxWorkers: 2}, func(r *rig) {
		s := r.Add("s")
		s.Say(named("m", "n"))
		r.want("two", "m=s n=s | bring m, bring n")
		s.Say(named("a", "b", "m", "n", "z"))
		s.Say(named("a", "b", "m", "n", "z"))
		r.want("five", "m=s n=s |")
		r.wantLogged("more workers than are taken", 1)
		s.Say(named("a", "a", "b", "n"))
		r.want("three, one of them twice", "a=s n=s | drain m, bring a")
	})
}

// Close waits for sources that run, and changes nothing.
func TestClose(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		ended := false
		r.Run("s", func(ctx context.Context, s *Source) {
			s.Say(named("a"))
			<-ctx.Done()
			time.Sleep(time.Second)
			s.Say(nil)
			s.Fail(errors.New("late"))
			ended = true
		})
		r.want("while it runs", "a=s | bring a")
		r.Close()
		if !ended {
			t.Error("Close returned before the source")
		}
		r.want("afterwards", "a=s |")
		r.Close()
		r.Add("more").Say(named("b"))
		r.Run("more", func(context.Context, *Source) { t.Error("a source was run after Close") })
		r.want("after all", "a=s |")
		if v := r.View(); v != nil {
			t.Errorf("View gives %v, want nil", v)
		}
	})
}

// TestAgreesWithSlow says random things from three sources. After each the fleet has what
// some source says, and nothing else; and what several say is as one of them says.
func TestAgreesWithSlow(t *testing.T) {
	const sources, urls, steps = 3, 6, 400
	bubble(t, Options{Retry: time.Second}, func(r *rig) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var all []*Source
		said := make([]map[string]string, sources) // models by URL
		for i := range sources {
			all = append(all, r.Add(fmt.Sprint(i)))
		}
		for step := range steps {
			i := rnd.IntN(sources)
			said[i] = make(map[string]string)
			var ws []Worker
			for u := range urls {
				if rnd.IntN(2) == 0 {
					url, model := fmt.Sprint("u", u), fmt.Sprint("m", rnd.IntN(2))
					said[i][url] = model
					ws = append(ws, Worker{URL: url, Model: model})
				}
			}
			r.fleet.set(func() {
				clear(r.fleet.refuse)
				if rnd.IntN(4) == 0 {
					r.fleet.refuse[fmt.Sprint("u", rnd.IntN(urls))] = errors.New("no")
				}
			})
			all[i].Say(ws)
			synctest.Wait()
			r.fleet.set(func() { clear(r.fleet.refuse) })
			time.Sleep(2 * time.Second) // what was refused is brought
			synctest.Wait()
			for u := range urls {
				url := fmt.Sprint("u", u)
				w, has := r.fleet.has[url]
				some, right := false, false
				for s := range sources {
					model, says := said[s][url]
					some = some || says
					right = right || says && w.Source == fmt.Sprint(s) && w.Model == model
				}
				if has != some || has && !right {
					t.Fatalf("step %d: the fleet has %s: %v, as %+v; said was %v", step, url, has, w, said)
				}
			}
		}
	})
}
