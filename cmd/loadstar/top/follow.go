// Package top shows a router's status in a terminal, from the events that its status
// page shows too.
package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"loadstar/proxy/statuspage"
)

// Bounds of following a router.
const (
	maxEvent  = 16 << 20
	maxAnswer = 64 << 10
	silence   = 5 * time.Second // frames come once a second
)

// refusal is an answer by which a router says no: to ask again won't help.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

var errSilent = errors.New("nothing comes from the router")

// follow hands on what the router at base tells until ctx ends or the stream does.
// Errors: a refusal, those of the network.
func follow(ctx context.Context, client *http.Client, base, key string, show func(*statuspage.Frame)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/status/events", http.NoBody)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return why(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var f statuspage.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return refusal{"what answers is no router of this kind: " + err.Error()}
		}
		quiet.Reset(silence)
		show(&f)
	}
	if err := lines.Err(); err != nil {
		return why(ctx, err)
	}
	return errors.New("the router has ended the stream")
}

// why says what an error of the network comes of.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner // without the URL, which the reader knows
	}
	return err
}

// refused is the error for an answer other than 200.
func refused(resp *http.Response) error {
	var in struct {
		Error struct{ Message string }
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil || json.Unmarshal(text, &in) != nil || in.Error.Message == "" {
		in.Error.Message = "what answers there may be no Loadstar, or one that has the admin API elsewhere"
	}
	err = fmt.Errorf("status %d: %s", resp.StatusCode, clean(in.Error.Message))
	if resp.StatusCode < 500 {
		return refusal{err.Error()}
	}
	return err
}
