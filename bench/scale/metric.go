package scale

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// metric is the value of one of a router's metrics without labels.
func (r *router) metric(ctx context.Context, client *http.Client, name string) (float64, error) {
	text, err := get(ctx, client, r.Metrics)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte(name+" ")); found {
			return strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", r.Metrics, name)
}
