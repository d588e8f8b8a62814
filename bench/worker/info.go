package worker

import (
	"encoding/json"
	"net/http"
	"time"
)

// versionText is what the worker says it runs.
const versionText = "0.0.0-sim"

// health is GET /health: 200 without a body while the engine runs, as vLLM has it.
func (w *Worker) health(rw http.ResponseWriter, _ *http.Request) {
	select {
	case <-w.engines[0].done:
		rw.WriteHeader(http.StatusServiceUnavailable)
	default:
		rw.WriteHeader(http.StatusOK)
	}
}

func (w *Worker) models(rw http.ResponseWriter, _ *http.Request) {
	writeObject(rw, object{"object": "list", "data": []object{{
		"id": w.cfg.Model, "object": "model", "created": time.Now().Unix(), "owned_by": "loadstar",
		"root": w.cfg.Model, "parent": nil, "max_model_len": maxModelLen,
	}}})
}

func (w *Worker) version(rw http.ResponseWriter, _ *http.Request) {
	writeObject(rw, object{"version": versionText})
}

// load is GET /load: the requests for work that are open.
func (w *Worker) load(rw http.ResponseWriter, _ *http.Request) {
	writeObject(rw, object{"server_load": w.Stats().Open})
}

func (w *Worker) serverInfo(rw http.ResponseWriter, _ *http.Request) {
	writeObject(rw, object{
		"model_path": w.cfg.Model, "served_model_name": w.cfg.Model, "version": versionText, "dp_size": len(w.engines),
		"max_running_requests": w.cfg.MaxRunning, "max_queued_requests": w.cfg.MaxQueue,
		"block_size": BlockTokens, "num_gpu_blocks": w.cfg.CacheBlocks, "chunked_prefill": w.cfg.ChunkedPrefill,
	})
}

func (w *Worker) modelInfo(rw http.ResponseWriter, _ *http.Request) {
	writeObject(rw, object{"model_path": w.cfg.Model, "tokenizer_path": w.cfg.Model, "is_generation": true})
}

// flushCache is POST /flush_cache. The cache is empty when it answers.
func (w *Worker) flushCache(rw http.ResponseWriter, _ *http.Request) {
	w.Forget()
	writeObject(rw, object{"success": true, "cached_blocks": w.Stats().CachedBlocks})
}

func writeObject(rw http.ResponseWriter, v object) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own objects: they can be marshalled
	}
	_ = write(rw, http.StatusOK, body)
}
