package proxy

import (
	"errors"
	"strconv"

	"loadstar/actors"

	"github.com/valyala/fasthttp"
)

// problem is an error for the client, in the shape that OpenAI's clients read.
type problem struct {
	status     int
	kind       string // "type" in the answer
	code       string
	message    string
	retryAfter int // seconds; 0 says nothing
}

// statusClientGone is nginx's status for a client that has left. Nobody reads
// it; the access log does.
const statusClientGone = 499

// Types of problems, as OpenAI names them.
const (
	kindInvalid     = "invalid_request_error"
	kindNotFound    = "not_found_error"
	kindPermission  = "permission_error"
	kindServer      = "server_error"
	kindRateLimit   = "rate_limit_error"
	kindUnavailable = "service_unavailable_error"
)

func badRequest(message string) *problem {
	return &problem{status: fasthttp.StatusBadRequest, kind: kindInvalid, code: "bad_request", message: message}
}

func tooLarge(limit int) *problem {
	return &problem{
		status: fasthttp.StatusRequestEntityTooLarge, kind: kindInvalid, code: "payload_too_large",
		message: "The request body is larger than " + strconv.Itoa(limit) + " bytes, the limit set by --max-payload-size.",
	}
}

func wrongMethod(allowed string) *problem {
	return &problem{
		status: fasthttp.StatusMethodNotAllowed, kind: kindInvalid, code: "method_not_allowed",
		message: "This path takes only " + allowed + ".",
	}
}

func noWorkers(who string) *problem {
	return &problem{
		fasthttp.StatusServiceUnavailable, kindUnavailable, "no_available_workers",
		"No available " + who + " (all circuits open or unhealthy).", 1,
	}
}

// errNotObject says that a request which has to be read here can't be.
var errNotObject = errors.New("the body is not a JSON object")

// problemOf is the one place that turns an error into what the client is told.
// It names no worker: clients need not know the fleet.
func problemOf(err error) *problem {
	switch {
	case errors.Is(err, actors.ErrStopped):
		return &problem{fasthttp.StatusServiceUnavailable, kindUnavailable, "shutting_down", "The router is shutting down.", 1}
	case errors.Is(err, actors.ErrRetryBudget):
		return &problem{fasthttp.StatusServiceUnavailable, kindUnavailable, "retry_budget_exhausted", "A worker failed the request, and too many requests are being retried already.", 1}
	case errors.Is(err, actors.ErrQueueFull):
		return &problem{fasthttp.StatusTooManyRequests, kindRateLimit, "queue_full", "The router is at its limit, and so is its queue.", 1}
	case errors.Is(err, actors.ErrQueueTimeout):
		return &problem{fasthttp.StatusServiceUnavailable, kindUnavailable, "queue_timeout", "The router is at its limit: the request waited too long for room.", 1}
	case errors.Is(err, actors.ErrDeadline):
		return &problem{fasthttp.StatusServiceUnavailable, kindUnavailable, "deadline_too_close", "The router is at its limit: the answer would begin behind the request's deadline.", 1}
	case errors.Is(err, actors.ErrNoModel):
		return &problem{fasthttp.StatusNotFound, kindInvalid, "model_not_found", "The model does not exist.", 0}
	case errors.Is(err, errNotObject):
		return badRequest("The request body must be a JSON object, plainly encoded in UTF-8: this router splits requests in two phases.")
	case errors.Is(err, actors.ErrNoPrefill):
		return noWorkers("prefill workers")
	case errors.Is(err, actors.ErrNoDecode):
		return noWorkers("decode workers")
	case errors.Is(err, actors.ErrNoWorker):
		return noWorkers("workers")
	}
	var f *failure
	if errors.As(err, &f) {
		return f.problem()
	}
	return &problem{fasthttp.StatusInternalServerError, kindServer, "internal_error", "The router could not handle the request.", 0}
}

// failure is an attempt that brought no answer.
type failure struct {
	cause actors.Cause
	err   error
	phase string // "prefill" or "decode" of a request in two phases; else empty
}

func (f *failure) Error() string { return f.cause.String() + ": " + f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

func (f *failure) problem() *problem {
	worker := "The worker"
	if f.phase != "" {
		worker = "The " + f.phase + " worker"
	}
	switch f.cause {
	case actors.ClientGone:
		return &problem{statusClientGone, kindInvalid, "client_closed_request", "The client closed the request.", 0}
	case actors.ConnectFailed:
		return &problem{fasthttp.StatusBadGateway, kindServer, "upstream_connect_failed", worker + " could not be reached.", 0}
	case actors.RouterExhausted:
		return &problem{
			fasthttp.StatusServiceUnavailable, kindUnavailable, "router_exhausted",
			"The router has no sockets or memory left to reach a worker with.", 1,
		}
	case actors.UpstreamTimeout:
		return &problem{fasthttp.StatusGatewayTimeout, kindServer, "upstream_timeout", worker + " did not answer in time.", 0}
	case actors.UpstreamInvalid:
		return &problem{fasthttp.StatusBadGateway, kindServer, "upstream_invalid_answer", worker + "'s answer could not be read.", 0}
	case actors.UpstreamTruncated:
		return &problem{fasthttp.StatusBadGateway, kindServer, "upstream_truncated", worker + " broke off in the middle of its answer.", 0}
	default:
		return &problem{fasthttp.StatusBadGateway, kindServer, "upstream_closed", worker + " closed the connection before it had answered.", 0}
	}
}

// body is the JSON of a problem.
func (e *problem) body() []byte {
	return mustJSON(map[string]any{"error": map[string]any{
		"message": e.message, "type": e.kind, "param": nil, "code": e.code,
	}})
}

// answerProblem writes e in place of whatever answer was begun.
func answerProblem(ctx *fasthttp.RequestCtx, e *problem) {
	resp := &ctx.Response
	resp.Reset()
	resp.SetStatusCode(e.status)
	resp.Header.SetContentType("application/json")
	if e.retryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	if e.status == fasthttp.StatusUnauthorized {
		resp.Header.Set("WWW-Authenticate", "Bearer")
	}
	resp.SetBody(e.body())
}
