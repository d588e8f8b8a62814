package worker

import (
	"fmt"
	"net/http"
)

// apiError is a request's refusal, told to the client.
type apiError struct {
	status  int
	param   string // the field at fault; may be empty
	message string
}

func (e *apiError) Error() string { return e.message }

// kind is the error's type in vLLM's words.
func (e *apiError) kind() string {
	switch {
	case e.status == http.StatusNotFound:
		return "NotFoundError"
	case e.status == http.StatusTooManyRequests:
		return "RateLimitError"
	case e.status == http.StatusServiceUnavailable:
		return "ServiceUnavailableError"
	case e.status >= 500:
		return "InternalServerError"
	}
	return "BadRequestError"
}

// badRequest is a refusal of the field param, or of the whole body if that is empty.
func badRequest(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, param: param, message: fmt.Sprintf(format, args...)}
}

// object is a JSON object.
type object = map[string]any

// errorShape is how an API writes an error.
type errorShape func(*apiError) object

func openAIError(e *apiError) object {
	body := object{"message": e.message, "type": e.kind(), "param": nil, "code": e.status}
	if e.param != "" {
		body["param"] = e.param
	}
	return object{"error": body}
}

func anthropicError(e *apiError) object {
	kind := "invalid_request_error"
	switch {
	case e.status == http.StatusNotFound:
		kind = "not_found_error"
	case e.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case e.status == http.StatusServiceUnavailable:
		kind = "overloaded_error"
	case e.status >= 500:
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": e.message}}
}
