package server

import (
	"crypto/subtle"
	"net/url"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"loadstar/actors/peers"
)

// Bounds of the server.
const (
	maxConnections = 128     // of routers, of whom 64 are heard
	maxSubs        = 64      // of one connection
	maxPending     = 4 << 20 // of what waits for one connection: half a gigabyte for all
	writeDeadline  = 2 * time.Second
	pingEvery      = 10 * time.Second // twice without an answer, and a connection is lost
	reportEvery    = 3600             // attempts at a route, after the first one
	clusterName    = "loadstar"       // servers of other names are refused
)

// library is the options in the library's words. They are made anew for each change of routes,
// as the library keeps and changes what it is given.
func (o *Options) library(routes []*url.URL) *natsd.Options {
	g := gate{user: o.User, password: o.Password, token: o.Token}
	n := &natsd.Options{
		Host: o.Host, Port: orRandom(o.Port),
		CustomClientAuthentication: g, CustomRouterAuthentication: g,
		NoSigs: true, NoLog: true, NoSystemAccount: true,
		MaxConn: maxConnections, MaxSubs: maxSubs, MaxPayload: peers.MaxMessage, MaxPending: maxPending,
		WriteDeadline: writeDeadline, PingInterval: pingEvery,
		ConnectErrorReports: reportEvery, ReconnectErrorReports: reportEvery,
	}
	if len(o.Routes) == 0 {
		return n
	}
	g.closed = true
	n.CustomClientAuthentication = g
	n.Host, n.Port = "127.0.0.1", natsd.RANDOM_PORT
	n.Cluster = natsd.ClusterOpts{
		Name: clusterName, Host: o.Host, Port: orRandom(o.Port), Username: o.User, Password: o.Password, NoAdvertise: true,
		PoolSize:     -1, // one connection to each: no account is worth its own
		Compression:  natsd.CompressionOpts{Mode: natsd.CompressionOff},
		PingInterval: pingEvery, WriteDeadline: writeDeadline,
		// What waits would be too old.
		WriteTimeout: natsd.WriteTimeoutPolicyClose,
	}
	n.Routes = routes
	return n
}

func orRandom(port int) int {
	if port == 0 {
		return natsd.RANDOM_PORT
	}
	return port
}

// gate says who may connect.
type gate struct {
	user, password, token string
	closed                bool // but for this process
}

// Check implements the library's Authentication.
func (g gate) Check(c natsd.ClientAuthentication) bool {
	if c.Kind() == natsd.CLIENT {
		if a := c.RemoteAddress(); a != nil && a.Network() == "pipe" {
			return true // made by Dial
		}
		if g.closed {
			return false
		}
	}
	if g.user+g.token == "" {
		return true
	}
	o := c.GetOpts()
	return same(o.Username, g.user)&same(o.Password, g.password)&same(o.Token, g.token) == 1
}

func same(a, b string) int { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) }
