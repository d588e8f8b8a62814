// Package server runs a NATS server in the router's own process, for routers that have
// none to meet at.
//
// It takes either the clients of one group of routers, who then all depend on this
// process, or, with routes, the servers of other routers: those make a full mesh, each
// router is a client of its own server alone, and whoever dies takes nobody along.
//
// A host among the routes may have many addresses that come and go, as those of the pods
// behind a headless service do. Left to itself the library takes one of them at random and is
// content, so that four servers may end as two pairs that never meet. So names are
// asked for here, again and again, and each address is a route. One that is no longer
// named is kept for a while: a router that is about to end may have requests for as
// long.
//
// # Goroutines
//
// One goroutine owns the server: it starts it, takes answers of the resolver, hands on what
// is logged, and stops it. The library has its own goroutines and locks, which nothing here
// waits for without a bound.
//
// # Bounds
//
// Messages are no longer than a router's, and what waits for one that doesn't read, how
// long it may take none, how many clients connect and what is told in the log are limited.
// Servers that connect are not: the library has no limit for them but the two seconds
// after which one without the password is cut off. There is no JetStream, no monitoring
// port and no file. The library has routes only behind a listener for clients: with
// routes it is on loopback, at a port that the system chooses, and lets nobody in.
package server
