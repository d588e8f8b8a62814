package worker

import (
	"encoding/json"
	"errors"
	"net/http"
)

// events writes server-sent events: they gather until flush sends them.
type events struct {
	rw      http.ResponseWriter
	flusher *http.ResponseController
	buf     []byte
	left    int // events until a fault's cut; 0 for no cut, −1 once it is reached
}

// newEvents sets the answer's head, which the first flush sends. After cut
// events, if that isn't 0, the stream is to break.
func newEvents(rw http.ResponseWriter, cut int) *events {
	rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	return &events{rw: rw, flusher: http.NewResponseController(rw), left: cut}
}

// send appends an event with v as its data; a name of "" sends none.
func (e *events) send(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types: they can be marshalled
	}
	e.raw(name, data)
}

// done appends the mark that ends an OpenAI stream.
func (e *events) done() { e.raw("", []byte("[DONE]")) }

func (e *events) raw(name string, data []byte) {
	if e.left < 0 {
		return
	}
	if name != "" {
		e.buf = append(e.buf, "event: "...)
		e.buf = append(e.buf, name...)
		e.buf = append(e.buf, '\n')
	}
	e.buf = append(e.buf, "data: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
	if e.left > 0 {
		if e.left--; e.left == 0 {
			e.left = -1
		}
	}
}

// fail ends the stream with err if that is for the client to know, as vLLM does,
// and returns what the handler is to know.
func (e *events) fail(err error) error {
	var refusal *apiError
	if !errors.As(err, &refusal) {
		return err
	}
	e.send("", openAIError(refusal))
	e.done()
	if err := e.flush(); err != nil {
		return err
	}
	return errTold
}

// flush sends what has gathered. It returns errGone if the client has left and
// errCut if the cut has been reached.
func (e *events) flush() error {
	if _, err := e.rw.Write(e.buf); err != nil {
		return errGone
	}
	if err := e.flusher.Flush(); err != nil {
		return errGone
	}
	e.buf = e.buf[:0]
	if e.left < 0 {
		return errCut
	}
	return nil
}
