package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds of sending a batch.
const (
	exportTries  = 3
	exportPause  = 200 * time.Millisecond // behind the first try; twice as long behind each other
	exportAnswer = 64 << 10               // bytes of an answer that are read
)

// exporter sends spans by OTLP over HTTP, in its JSON form. It follows no redirect and
// honours no proxy from the environment.
type exporter struct {
	to   string
	http *http.Client
}

func newExporter(to string) *exporter {
	return &exporter{to, &http.Client{
		Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (e *exporter) close() { e.http.CloseIdleConnections() }

// export sends spans, again where the standard lets it, until ctx ends. When hurry is
// closed it doesn't try again. rejected is how many spans the collector did not take.
func (e *exporter) export(ctx context.Context, spans []sdk.ReadOnlySpan, hurry <-chan struct{}) (rejected int, err error) {
	body, err := json.Marshal(encode(spans))
	if err != nil {
		return 0, err
	}
	pause := exportPause
	for try := 1; ; try++ {
		var again bool
		if rejected, again, err = e.post(ctx, body); !again || try == exportTries {
			return rejected, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-hurry:
			timer.Stop()
			return 0, err
		case <-ctx.Done():
			timer.Stop()
			return 0, err
		}
		pause *= 2
	}
}

// post makes one try. It reports whether another may go better.
func (e *exporter) post(ctx context.Context, body []byte) (rejected int, again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "loadstar")
	resp, err := e.http.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the URL, which is told beside it
		}
		return 0, ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, exportAnswer)) // it says what it can
	switch resp.StatusCode {
	case http.StatusOK:
		return rejectedOf(answer), false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return 0, again, fmt.Errorf("status %d", resp.StatusCode)
}

// rejectedOf is how many spans an answer of status 200 says were not taken.
func rejectedOf(answer []byte) int {
	var a struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // a number, or one in quotes
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	n, err := strconv.Atoi(string(bytes.Trim(a.PartialSuccess.RejectedSpans, `"`)))
	if err != nil {
		return 0
	}
	return max(n, 0)
}
