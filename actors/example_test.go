package actors_test

import (
	"fmt"

	"loadstar/actors"
	"loadstar/actors/policy"
)

// A worker's load is the number of live leases on it, and nothing but taking and
// giving back a lease changes it.
func ExampleRegistry() {
	var o actors.Options
	for role := range o.Policy {
		o.Policy[role] = "power_of_two"
	}
	o.PolicyOptions = policy.DefaultOptions()
	o.Health = actors.HealthOptions{FailureThreshold: 1, SuccessThreshold: 1}
	o.MaxWorkers = 16
	registry, err := actors.NewRegistry(o)
	if err != nil {
		fmt.Println(err)
		return
	}

	const url = "http://10.0.0.1:8000"
	_, err = registry.Add(actors.Expand(actors.Spec{Base: url}, 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	registry.ReportHealth(url, nil) // a worker gets nothing before a check went well

	load := func(when string) {
		s, _ := registry.Snapshot(0)
		for _, w := range s.Workers {
			fmt.Printf("%s: load %d, healthy %v, member %v\n", when, w.Load, w.Healthy, w.Member)
		}
	}
	first, err := registry.Acquire(&actors.Request{})
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := registry.Acquire(&actors.Request{})
	if err != nil {
		fmt.Println(err)
		return
	}
	load("two requests run")

	registry.ReportHealth(url, fmt.Errorf("it doesn't answer"))
	load("it is sick")
	_, err = registry.Acquire(&actors.Request{})
	fmt.Println("meanwhile:", err)

	if _, err := registry.Remove(url); err != nil {
		fmt.Println(err)
		return
	}
	load("it is removed")

	first.Release(actors.Completed, 0)
	load("one is over")
	second.Release(actors.UpstreamReset, 0)
	load("both are over") // and the worker is forgotten

	fmt.Println("end:", registry.Halt())
	// Output:
	// two requests run: load 2, healthy true, member true
	// it is sick: load 2, healthy false, member true
	// meanwhile: no worker is available
	// it is removed: load 2, healthy false, member false
	// one is over: load 1, healthy false, member false
	// end: <nil>
}
