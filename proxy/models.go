package proxy

import (
	"bytes"
	"encoding/json"

	"loadstar/actors"

	"github.com/valyala/fasthttp"
)

// models answers with the models of the whole fleet. Where there is one worker,
// its own answer says it best.
func (x *exchange) models() {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	bases := membersOf(&v, (*actors.WorkerView).Usable)
	switch len(bases) {
	case 0:
		x.refuse(problemOf(actors.ErrNoWorker))
		return
	case 1:
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

// mergeModels lists, once each, the models in several answers to /v1/models, as
// the first worker that has one describes it.
func mergeModels(answers [][]byte) []json.RawMessage {
	merged, known := []json.RawMessage{}, map[string]bool{}
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
			if json.Unmarshal(m, &model) == nil && !known[model.ID] {
				known[model.ID] = true
				merged = append(merged, bytes.Clone(m))
			}
		}
	}
	return merged
}
