package routekey_test

import (
	"fmt"

	"loadstar/proxy/routekey"
)

func Example() {
	var s routekey.Scanner // from a pool
	body := []byte(`{"model":"llama","stream":true,"user":"u1","messages":[{"role":"user","content":"Hello"}]}`)
	if !s.Scan(body) {
		fmt.Println("no key; the request is forwarded without one")
		return
	}
	fmt.Printf("%s %v %d bytes\n", s.Body.Model, s.Body.Stream, s.Key.Bytes)
	fmt.Printf("%s\n", routekey.AppendSession(nil, s.Body.SessionKind, s.Body.Session))
	// Output:
	// llama true 33 bytes
	// user:u1
}
