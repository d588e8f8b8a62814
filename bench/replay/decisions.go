package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// decision is what a summary wants of a line of Loadstar's log of decisions.
type decision struct {
	Policy, Reason, Outcome string
	Blocks, Match           int
	Best                    int  `json:"best_match"`
	Prompt                  *int `json:"prompt_tokens"`
	Predicted               *int `json:"predicted_cached_tokens"`
	Cached                  *int `json:"cached_tokens"`
}

// tally is what decisions of one kind add up to. Of tokens only those answers count
// that told what they found in the cache.
type tally struct {
	decisions, blocks, match, best       int
	answers, prompt, predicted, reported int
}

func (t *tally) add(d *decision) {
	t.decisions++
	t.blocks, t.match, t.best = t.blocks+d.Blocks, t.match+d.Match, t.best+d.Best
	if d.Prompt != nil && d.Predicted != nil && d.Cached != nil {
		t.answers++
		t.prompt, t.predicted, t.reported = t.prompt+*d.Prompt, t.predicted+*d.Predicted, t.reported+*d.Cached
	}
}

// longestDecision bounds a line of the log, in bytes.
const longestDecision = 64 << 10

// SumUp reads Loadstar's log of decisions, lines of JSON, and writes a table of them by
// policy and reason: what share of the prompts was known at the workers that were
// chosen and at those that know most, and which tokens were predicted to be cached
// and which were.
func SumUp(in io.Reader, out io.Writer) error {
	kinds, outcomes, all := map[string]*tally{}, map[string]int{}, &tally{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestDecision)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var d decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return fmt.Errorf("line %d is no decision: %w", n, err)
		}
		kind := d.Policy + "\t" + d.Reason
		if kinds[kind] == nil {
			kinds[kind] = &tally{}
		}
		kinds[kind].add(&d)
		all.add(&d)
		outcomes[d.Outcome]++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("a line of decisions can't be read: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "policy\treason\tdecisions\tknown\tbest known\tanswers\tpredicted tokens\treported\t")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		kinds[kind].print(w, kind)
	}
	all.print(w, "all\t")
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		if _, err := fmt.Fprintf(out, "%s: %d\n", o, outcomes[o]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) print(w io.Writer, kind string) {
	fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%d\t%.3f\t%.3f\t\n", kind, t.decisions, share(t.match, t.blocks), share(t.best, t.blocks),
		t.answers, share(t.predicted, t.prompt), share(t.reported, t.prompt))
}

func share(some, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(some) / float64(all)
}
