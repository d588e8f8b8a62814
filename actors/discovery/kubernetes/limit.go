package kubernetes

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// Bounds of what an API server says, which has no end if it has lost its mind, and is
// kept until it has one.
const (
	maxAnswer = 128 << 20 // bytes of one answer; a watch that says more is begun anew
	maxPods   = 1 << 16   // of a list, in all its pages together
)

// limit has answers end with an error behind so many bytes.
func limit(c *rest.Config, most int64) {
	c.Wrap(func(inner http.RoundTripper) http.RoundTripper { return limited{inner, most} })
}

// limited is a transport whose answers end with an error behind so many bytes.
type limited struct {
	inner http.RoundTripper
	most  int64
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.inner.RoundTrip(r)
	if err == nil {
		answer.Body = &limitedBody{answer.Body, l.most, l.most}
	}
	return answer, err
}

type limitedBody struct {
	io.ReadCloser
	left, most int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", b.most)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
