package proxy

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"loadstar/actors"
	"loadstar/proxy/rawjson"

	"github.com/valyala/fasthttp"
)

// models answers with the models of the whole fleet, and their other names. Where
// there is one worker and no other name, its own answer says it best.
func (x *exchange) models() {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	bases := membersOf(&v, (*actors.WorkerView).Usable)
	switch {
	case len(bases) == 0:
		x.refuse(problemOf(actors.ErrNoWorker))
		return
	case len(bases) == 1 && len(x.p.aliases) == 0:
		x.record.own = false
		x.forward()
		return
	}
	list := x.p.models.list(x.authorization(), bases)
	l := &x.link
	l.guard.Arm(l.client, nil)
	left := l.guard.WaitFor(list.told, modelsPatience)
	select {
	case <-list.told:
	default:
		x.p.models.leave(list)
		if left {
			x.giveUp(&failure{cause: actors.ClientGone, err: errClientGone})
		} else {
			x.refuse(modelsBusy)
		}
		return
	}
	if list.problem != nil {
		x.refuse(list.problem)
		return
	}
	x.answerBody(fasthttp.StatusOK, "application/json", list.answer)
}

// modelsListed is the number of models that an answer lists, their other names not
// counted.
const modelsListed = 4096

// mergeModels lists, once each, the models in several answers to /v1/models, as
// the first worker that has one describes it. Behind them stand the other names of
// those that are there, in order.
func mergeModels(answers [][]byte, aliases map[string]alias) []json.RawMessage {
	merged, known := []json.RawMessage{}, map[string]json.RawMessage{}
	for _, a := range answers {
		var list struct {
			Data []json.RawMessage `json:"data"`
		}
		if json.Unmarshal(a, &list) != nil {
			continue
		}
		for _, m := range list.Data {
			var model struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(m, &model) == nil && known[model.ID] == nil && len(model.ID) <= actors.MaxModelName && len(merged) < modelsListed {
				known[model.ID] = bytes.Clone(m)
				merged = append(merged, known[model.ID])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		described := known[aliases[name].model]
		if described == nil || known[name] != nil {
			continue
		}
		edits := []rawjson.Edit{{Op: rawjson.Replace, Name: "id", Value: mustJSON(name)}}
		if entry, ok := rawjson.AppendEdited(nil, described, edits); ok {
			merged = append(merged, entry)
		}
	}
	return merged
}
