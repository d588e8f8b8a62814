package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"loadstar/actors"
	"loadstar/actors/workerurl"
)

// Description is a worker in the words of POST /workers, which those of a file are
// too.
type Description struct {
	URL       string            `json:"url"             yaml:"url"`
	Model     string            `json:"model_id"        yaml:"model_id"`
	Models    []string          `json:"models"          yaml:"models"`
	Priority  *int              `json:"priority"        yaml:"priority"`
	Cost      *float64          `json:"cost"            yaml:"cost"`
	Type      string            `json:"worker_type"     yaml:"worker_type"`
	Bootstrap int               `json:"bootstrap_port"  yaml:"bootstrap_port"`
	Labels    map[string]string `json:"labels"          yaml:"labels"`
}

// maxCost is far beyond any price that tells workers apart.
const maxCost = 1e9

// Bounds of the labels of a worker, all of which are shown wherever it is: of how many
// there may be, and of bytes of a key and of a value.
const (
	maxLabels = 64
	maxLabel  = 256
)

// Worker is what a description describes, of the workers that a router takes which
// needs these roles.
func (d *Description) Worker(takes []actors.Role) (Worker, error) {
	w := Worker{Model: d.Model, Models: d.Models, Priority: DefaultPriority, Cost: 1, Labels: d.Labels, Bootstrap: d.Bootstrap}
	if d.URL == "" {
		return w, errors.New("there is no url")
	}
	var err error
	if w.Roles, err = rolesNamed(d.Type, takes); err != nil {
		return w, err
	}
	switch {
	case slices.ContainsFunc(d.Models, unfitModel) || d.Model != "" && unfitModel(d.Model) || len(d.Models) > actors.MaxModelsOfWorker:
		return w, fmt.Errorf("model_id and models must be names of at most %d bytes, and models at most %d of them", actors.MaxModelName, actors.MaxModelsOfWorker)
	case unfitLabels(d.Labels):
		return w, fmt.Errorf("labels must be at most %d, with keys and values of at most %d bytes", maxLabels, maxLabel)
	case d.Bootstrap < 0 || d.Bootstrap > 65535:
		return w, errors.New("bootstrap_port is no port")
	case d.Cost != nil && !(*d.Cost > 0 && *d.Cost < maxCost):
		return w, errors.New("cost must be above 0")
	}
	if d.Priority != nil {
		w.Priority = *d.Priority
	}
	if d.Cost != nil {
		w.Cost = *d.Cost
	}
	w.URL, err = workerurl.Name(d.URL)
	return w, err
}

func unfitModel(name string) bool { return !actors.FitModelName(name) }

func unfitLabels(all map[string]string) bool {
	for key, value := range all {
		if len(key) > maxLabel || len(value) > maxLabel {
			return true
		}
	}
	return len(all) > maxLabels
}

// rolesNamed gives the roles of a worker_type, which may join two by a plus sign. A
// router of whole requests needs none named.
func rolesNamed(name string, takes []actors.Role) (roles actors.Roles, err error) {
	if name == "" && slices.Equal(takes, []actors.Role{actors.Regular}) {
		return 0, nil
	}
	for n := range strings.SplitSeq(name, "+") {
		i := slices.IndexFunc(takes, func(r actors.Role) bool { return r.String() == n })
		if i < 0 {
			hint := ""
			if name == actors.Regular.String() {
				hint = ", and regular ones only with --enable-igw"
			}
			return 0, fmt.Errorf("worker_type %q: this router takes %s workers%s", name, namesOf(takes), hint)
		}
		roles |= actors.RolesOf(takes[i])
	}
	return roles, nil
}

func namesOf(roles []actors.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.String()
	}
	return strings.Join(names, " and ")
}
