package worker

import (
	"net/http"
)

// routes is every path the worker knows. Work is counted and can be made to
// fail; the rest always answers.
func (w *Worker) routes() http.Handler {
	mux := http.NewServeMux()

	work := func(path string, shape errorShape, serve func(*call) (outcome, error)) {
		mux.HandleFunc("POST "+path, w.work(shape, serve))
	}
	work("/v1/chat/completions", openAIError, serveChat)
	work("/v1/completions", openAIError, serveCompletion)
	work("/v1/responses", openAIError, serveResponse)
	work("/v1/messages", anthropicError, serveMessage)
	work("/v1/embeddings", openAIError, serveEmbeddings)
	work("/v1/rerank", openAIError, serveRerank)
	work("/rerank", openAIError, serveRerank)
	work("/tokenize", openAIError, serveTokenize)
	work("/detokenize", openAIError, serveDetokenize)
	mux.HandleFunc("GET /health_generate", w.work(openAIError, serveHealthGenerate))

	mux.HandleFunc("GET /health", w.health)
	mux.HandleFunc("GET /v1/models", w.models)
	mux.HandleFunc("GET /version", w.version)
	mux.HandleFunc("GET /load", w.load)
	mux.HandleFunc("GET /metrics", w.metrics)
	mux.HandleFunc("GET /get_server_info", w.serverInfo)
	mux.HandleFunc("GET /get_model_info", w.modelInfo)
	mux.HandleFunc("POST /flush_cache", w.flushCache)
	mux.HandleFunc("GET /query", w.bootstrap)
	mux.HandleFunc("POST /kv/{what}", w.transfers)

	return echoID(mux)
}

// echoID gives a request's id back, as vLLM does when asked to.
func echoID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("X-Request-Id"); id != "" {
			rw.Header().Set("X-Request-Id", id)
		}
		next.ServeHTTP(rw, r)
	})
}
