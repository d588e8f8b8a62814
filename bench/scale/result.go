package scale

import "loadstar/bench/compare"

// Kind is what a Result's field of that name says.
const Kind = "scale"

// Result is everything that a run measured.
type Result struct {
	Kind     string          `json:"kind"` // "scale"
	Time     string          `json:"time"` // when it began, RFC 3339
	Command  string          `json:"command"`
	Machine  compare.Machine `json:"machine"`
	Version  string          `json:"version"` // of Loadstar
	Settings Settings        `json:"settings"`
	// Interrupted says that the run was ended before time, and so figures are missing.
	Interrupted bool      `json:"interrupted,omitempty"`
	Figures     []*Figure `json:"figures"` // those of a part stand together
	Notes       []string  `json:"notes,omitempty"`
}

// Figure is one quantity.
type Figure struct {
	Part   string    `json:"part"`
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Most   *float64  `json:"most,omitempty"` // what the median must not exceed; nil if nothing is promised
	Values []float64 `json:"values"`         // of each round
}

// bound makes a promise of a number.
func bound(most float64) *float64 { return &most }

// add adds a round's value to a figure.
func (r *Result) add(part, name, unit string, most *float64, value float64) {
	last := -1
	for i, f := range r.Figures {
		if f.Part == part {
			last = i
			if f.Name == name {
				f.Values = append(f.Values, value)
				return
			}
		}
	}
	f := &Figure{Part: part, Name: name, Unit: unit, Most: most, Values: []float64{value}}
	if last < 0 {
		last = len(r.Figures) - 1
	}
	r.Figures = append(r.Figures[:last+1], append([]*Figure{f}, r.Figures[last+1:]...)...)
}
