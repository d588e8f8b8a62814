package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// parseCSV reads milliseconds, tokens of the prompt and of the answer, and runs of
// block ids.
func parseCSV(line []byte) (Request, error) {
	fields := bytes.Split(line, []byte(","))
	if len(fields) != 4 {
		return Request{}, fmt.Errorf("%d fields: give four, timestamp_ms,input_tokens,output_tokens,block ids", len(fields))
	}
	at, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil {
		return Request{}, fmt.Errorf("time %q: give milliseconds", fields[0])
	}
	r := Request{}
	if r.At, err = milliseconds(at); err != nil {
		return Request{}, err
	}
	if r.Input, err = tokens("input", fields[1]); err != nil {
		return Request{}, err
	}
	if r.Output, err = tokens("output", fields[2]); err != nil {
		return Request{}, err
	}
	for _, run := range bytes.Fields(fields[3]) {
		if r.Blocks, err = appendRun(r.Blocks, run); err != nil {
			return Request{}, err
		}
	}
	return r, nil
}

func tokens(what string, field []byte) (int, error) {
	n, err := strconv.ParseUint(string(field), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s tokens %q: give a whole number", what, field)
	}
	return int(n), nil
}

// appendRun appends the ids of a run: a for one, a+n for the n+1 from a on.
func appendRun(blocks []uint64, run []byte) ([]uint64, error) {
	start, more, several := bytes.Cut(run, []byte("+"))
	first, err := strconv.ParseUint(string(start), 10, 64)
	n := uint64(0)
	if err == nil && several {
		n, err = strconv.ParseUint(string(more), 10, 64)
	}
	if err != nil || first+n < first {
		return nil, fmt.Errorf("block ids %q: give a number, or first+further ones", run)
	}
	if n >= maxIDs || len(blocks)+int(n) >= maxIDs {
		return nil, fmt.Errorf("block ids %q: a request may have %d", run, maxIDs)
	}
	for i := range n + 1 {
		blocks = append(blocks, first+i)
	}
	return blocks, nil
}

// parseJSON reads an object as in the traces that Mooncake publishes: timestamp in
// milliseconds, input_length and output_length in tokens, and hash_ids. Other
// fields mean nothing here.
func parseJSON(line []byte) (Request, error) {
	var v struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *uint32  `json:"input_length"`
		Output    *uint32  `json:"output_length"`
		Blocks    []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return Request{}, err
	}
	if v.Timestamp == nil {
		return Request{}, errors.New("timestamp is missing: give milliseconds")
	}
	r := Request{Blocks: v.Blocks, Input: Unknown, Output: Unknown}
	var err error
	if r.At, err = milliseconds(*v.Timestamp); err != nil {
		return Request{}, err
	}
	if v.Input != nil {
		r.Input = int(*v.Input)
	}
	if v.Output != nil {
		r.Output = int(*v.Output)
	}
	return r, nil
}
