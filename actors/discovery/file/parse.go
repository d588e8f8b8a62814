package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"loadstar/actors"
	"loadstar/actors/discovery"

	"go.yaml.in/yaml/v3"
)

// MaxSize is how many bytes of a file are taken: some hundreds for each worker of the
// largest fleet.
const MaxSize = 4 << 20

// maxFaults is how many faults are told at once.
const maxFaults = 10

// keys are those of a discovery.Description.
var keys = []string{"url", "model_id", "models", "worker_type", "priority", "cost", "bootstrap_port", "labels"}

// Parse reads the workers in a file, for a router that needs these roles. The error
// tells all that is wrong, by line.
func Parse(text []byte, takes []actors.Role) ([]discovery.Worker, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it has more than %d bytes", MaxSize)
	}
	doc, err := document(text)
	if err != nil {
		return nil, err
	}
	list, err := listIn(doc)
	if err != nil {
		return nil, err
	}
	var workers []discovery.Worker
	var faults []error
	lines := make(map[string]int) // by URL
	for _, n := range list.Content {
		w, err := worker(n, takes)
		if first, twice := lines[w.URL]; err == nil && twice {
			err = fmt.Errorf("%s stands in line %d already: name it once, with worker_type a+b if it has two roles", w.URL, first)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n.Line, err))
			continue
		}
		lines[w.URL] = n.Line
		workers = append(workers, w)
	}
	if n := len(faults); n > maxFaults {
		faults = append(faults[:maxFaults], fmt.Errorf("and %d more", n-maxFaults))
	}
	return workers, errors.Join(faults...)
}

// document is the one that a text holds, without contents if it holds none.
func document(text []byte) (*yaml.Node, error) {
	docs := yaml.NewDecoder(bytes.NewReader(text))
	var first, more yaml.Node
	if err := docs.Decode(&first); err != nil && !errors.Is(err, io.EOF) {
		return nil, plain(err)
	}
	switch err := docs.Decode(&more); {
	case err == nil:
		return nil, fmt.Errorf("line %d: another document begins: put all workers into one list", more.Line)
	case !errors.Is(err, io.EOF):
		return nil, plain(err)
	}
	return &first, nil
}

// plain is an error of YAML on one line, without its package's name.
func plain(err error) error {
	return errors.New(strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
}

// listIn finds the list of workers in a document.
func listIn(doc *yaml.Node) (*yaml.Node, error) {
	if len(doc.Content) == 0 {
		return nil, errors.New("it is empty: write [] if there are no workers")
	}
	top := doc.Content[0]
	if top.Kind == yaml.MappingNode && len(top.Content) == 2 && top.Content[0].Value == "workers" {
		top = top.Content[1]
	}
	if top.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: a list of workers is missing: begin each with \"- url:\", or write a JSON array", top.Line)
	}
	return top, nil
}

func worker(n *yaml.Node, takes []actors.Role) (discovery.Worker, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return discovery.Worker{}, errors.New("no worker: write \"url: http://HOST:PORT\", and what else there is to say of it")
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(keys, key.Value) {
			return discovery.Worker{}, fmt.Errorf("the key %q is unknown: give some of %s", key.Value, strings.Join(keys, ", "))
		}
	}
	var d discovery.Description
	if err := n.Decode(&d); err != nil {
		return discovery.Worker{}, plain(err)
	}
	return d.Worker(takes)
}
