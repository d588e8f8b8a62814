package proxy

import (
	"crypto/tls"
	"io"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestTLSGoodbye: a client that says goodbye within TLS and waits for the router to
// do so too has left.
func TestTLSGoodbye(t *testing.T) {
	certs, trust := certificate(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			w := proxytest.NewWorker(t, stalledStream)
			r := startRouter(t, once(), w)
			ln, err := Listen("127.0.0.1:0", 0)
			if err != nil {
				t.Fatal(err)
			}
			go r.Serve(ln, certs) // ends with the router
			trust := trust.Clone()
			trust.MaxVersion = version
			c, err := tls.Dial("tcp", ln.Addr().String(), trust)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			body := chat("hi", true)
			if _, err := io.WriteString(c, "POST "+chatPath+" HTTP/1.1\r\nHost: x\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+body); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			r.waitLoad(w, 1)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			r.waitLoad(w, 0)
			w.WaitInFlight(0, patience)
			r.waitOutcome(actors.ClientGone, 1)
		})
	}
}
