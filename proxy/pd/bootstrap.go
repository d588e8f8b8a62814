package pd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"loadstar/proxy/rawjson"
)

// Engines are the engine ids behind a Mooncake bootstrap server, one for each
// data-parallel rank, in no order.
type Engines []Engine

// Engine is one of them.
type Engine struct {
	Rank int
	ID   string // a JSON string, quotes included
}

// What one server may have: ranks, and bytes in an engine id.
const (
	maxEngines  = 1024
	maxEngineID = 256
)

var errNoEngine = errors.New("a Mooncake bootstrap server names no engine: wait until the prefill worker has started")

// ParseEngines reads the answer to a bootstrap server's /query: engines by rank,
// each an object with an engine_id, or, of older servers, ranks by engine id.
func ParseEngines(answer []byte) (Engines, error) {
	var engines Engines
	o, ok := rawjson.OpenObject(answer)
	if !ok || !json.Valid(answer) {
		return nil, badBootstrap(answer)
	}
	for {
		name, value, ok := o.Next()
		if !ok {
			break
		}
		if id := rawjson.Member(value, "engine_id"); id != nil {
			rank, err := strconv.Atoi(string(name))
			if err != nil || rank < 0 || id[0] != '"' || len(id) > maxEngineID {
				return nil, badBootstrap(answer)
			}
			engines = append(engines, Engine{rank, string(id)})
		} else if engines = appendRanks(engines, name, value); engines == nil {
			return nil, badBootstrap(answer)
		}
		if len(engines) > maxEngines {
			return nil, badBootstrap(answer)
		}
	}
	switch {
	case !o.Ended():
		return nil, badBootstrap(answer)
	case len(engines) == 0:
		return nil, errNoEngine
	}
	return engines, nil
}

// appendRanks appends an engine for each rank that is the name of a member. It
// returns nil if there are others, or none.
func appendRanks(engines Engines, id, ranks []byte) Engines {
	o, ok := rawjson.OpenObject(ranks)
	if !ok || len(id) > maxEngineID {
		return nil
	}
	before := len(engines)
	for len(engines) <= maxEngines {
		name, _, ok := o.Next()
		if !ok {
			break
		}
		rank, err := strconv.Atoi(string(name))
		if err != nil || rank < 0 {
			return nil
		}
		engines = append(engines, Engine{rank, `"` + string(id) + `"`})
	}
	if len(engines) == before {
		return nil
	}
	return engines
}

func badBootstrap(answer []byte) error {
	return fmt.Errorf("a Mooncake bootstrap server answers %.100q, which is not engine ids by rank: check its port", answer)
}

// forRank is the id of the engine with this rank, or else of the lowest one.
func (e Engines) forRank(rank int) (id string, ok bool) {
	lowest := -1
	for i := range e {
		if e[i].Rank == rank {
			return e[i].ID, true
		}
		if lowest < 0 || e[i].Rank < e[lowest].Rank {
			lowest = i
		}
	}
	if lowest < 0 {
		return "", false
	}
	return e[lowest].ID, true
}
