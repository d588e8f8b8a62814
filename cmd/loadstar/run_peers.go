package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"loadstar/actors/peers"
	"loadstar/proxy"
)

// peersOf is how this router joins others, or nil if there are none. The error names
// the flag.
func peersOf(c config) (*proxy.PeersOptions, error) {
	if !c.Peers.Enabled() {
		return nil, nil
	}
	o := proxy.PeersOptions{Name: c.Peers.Name, Group: c.Peers.Group, Servers: c.Peers.Servers, CredsFile: c.Peers.CredsFile}
	if o.CredsFile != "" {
		f, err := os.Open(o.CredsFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use the credentials of --peers-nats-creds %q: %w", o.CredsFile, withoutPath(err))
		}
		f.Close()
	}
	if o.Name == "" {
		o.Name = madeUpName()
	}
	return &o, nil
}

// madeUpName is the host's name, as far as it may stand in a name, and random digits.
func madeUpName() string {
	host, _ := os.Hostname() // without one the digits do
	host = strings.Map(func(r rune) rune {
		if peers.IsName(string(r)) {
			return r
		}
		return '-'
	}, host)
	var digits [4]byte
	_, _ = rand.Read(digits[:]) // never fails
	return strings.TrimPrefix(host[:min(len(host), 48)]+"-"+hex.EncodeToString(digits[:]), "-")
}
