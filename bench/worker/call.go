package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

var (
	// errGone says that nobody waits for the answer: the client left, or the
	// worker is closed.
	errGone = errors.New("the client is gone")
	// errCut says that a fault ends the answer here.
	errCut = errors.New("the answer is cut")
	// errTold says that the answer ends with an error in its stream.
	errTold = errors.New("the stream tells the error")
	// errReset says that a fault resets the connection.
	errReset = errors.New("the connection is reset")
)

// call is one request for work, from its arrival until its handler ends.
type call struct {
	cfg    *Config
	engine *engine
	rw     http.ResponseWriter
	req    *http.Request
	id     string // the client's request id, or one of ours
	body   []byte
	faults *faults
	fault  Fault  // that which befalls it, of faults
	job    *job   // nil until something is submitted
	source source // of a decode request's blocks; without a peer for any other request
	asked  bool   // the source, for the blocks
}

// work counts a request, lets its fault befall it and serves it.
func (w *Worker) work(shape errorShape, serve func(*call) (outcome, error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		e, rank, misled := w.pick(r)
		c := &call{cfg: &w.cfg, engine: e, rw: rw, req: r, faults: &w.faults, id: r.Header.Get("X-Request-Id")}
		if c.id == "" {
			c.id = fmt.Sprintf("%016x", rand.Uint64())
		}
		e.enter(rank)
		ended := aborted
		defer func() {
			e.leave(c.job, ended)
			c.giveUp()
		}()

		err := misled
		if ended = refused; err == nil {
			ended, err = c.run(serve)
		}
		if err == nil {
			return
		}
		var refusal *apiError
		switch {
		case errors.As(err, &refusal):
			body, _ := json.Marshal(shape(refusal)) // strings and numbers only
			_ = write(rw, refusal.status, body)
		case errors.Is(err, errReset):
			reset(rw)
		default:
			// Returning would end the body properly, as if it were whole.
			panic(http.ErrAbortHandler)
		}
	}
}

// run reads the body and serves it, fault first. The body comes before the
// fault because net/http watches for the client's leaving only after it.
func (c *call) run(serve func(*call) (outcome, error)) (outcome, error) {
	if c.req.ContentLength > maxBody {
		return refused, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.rw, c.req.Body, maxBody))
	if err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return refused, tooLarge()
		}
		return aborted, errGone
	}
	c.body = body
	if text := c.req.Header.Get("X-Sim-Fail"); text != "" && c.cfg.AllowFaults {
		if c.faults, err = parseFaults(text); err != nil {
			return refused, badRequest("X-Sim-Fail", "%v", err)
		}
	}
	c.fault = c.faults.any.strike()
	if ended, err := c.suffer(); err != nil {
		return ended, err
	}
	return serve(c)
}

func tooLarge() *apiError {
	return &apiError{
		status:  http.StatusRequestEntityTooLarge,
		message: fmt.Sprintf("the body is larger than %d bytes", maxBody),
	}
}

// suffer lets the part of the fault happen that comes before an answer. An
// error means that there will be none.
func (c *call) suffer() (outcome, error) {
	if c.fault.Slow > 0 {
		if err := c.pause(c.fault.Slow); err != nil {
			return aborted, err
		}
	}
	if c.fault.Hang {
		select {
		case <-c.req.Context().Done():
		case <-c.engine.done:
		}
		return aborted, errGone
	}
	if c.fault.Reset {
		return failed, errReset
	}
	if c.fault.Status != 0 {
		return failed, &apiError{status: c.fault.Status, message: fmt.Sprintf("this request was to fail with %d", c.fault.Status)}
	}
	return stopped, nil
}

// sufferHalf lets the fault of the prefill or the decode half befall a request
// that is one. What another fault does to the answer still holds.
func (c *call) sufferHalf(kv *kvParams) (outcome, error) {
	f := Fault{}
	switch {
	case kv == nil:
		return stopped, nil
	case kv.RemoteDecode:
		f = c.faults.prefill.strike()
	case kv.RemotePrefill:
		f = c.faults.decode.strike()
	}
	if f.Cut == 0 {
		f.Cut = c.fault.Cut
	}
	f.Stop = f.Stop || c.fault.Stop
	c.fault = f
	return c.suffer()
}

// pause waits for d, or less if nobody waits for the answer any more.
func (c *call) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.req.Context().Done():
	case <-c.engine.done:
	}
	return errGone
}

// decode reads the body into v, a pointer.
func (c *call) decode(v any) error {
	if err := json.Unmarshal(c.body, v); err != nil {
		return badRequest("", "the body is not a request of this kind: %v", err)
	}
	return nil
}

// checkModel refuses a model that isn't served; none named means ours.
func (c *call) checkModel(name string) error {
	if name == "" || name == c.cfg.Model {
		return nil
	}
	return &apiError{
		status: http.StatusNotFound, param: "model",
		message: fmt.Sprintf("The model `%s` does not exist.", name),
	}
}

// submit hands a job to the engine.
func (c *call) submit(j *job) (outcome, error) {
	switch err := c.engine.submit(j); {
	case errors.Is(err, errFull):
		c.rw.Header().Set("Retry-After", "1")
		return refused, &apiError{status: c.cfg.OverloadStatus, message: "the queue is full, try again later"}
	case err != nil:
		return aborted, errGone
	}
	c.job = j
	return stopped, nil
}

// wait is the job's next progress. The only error is errGone.
func (c *call) wait() (progress, error) {
	select {
	case p := <-c.job.progress:
		return p, nil
	case <-c.req.Context().Done():
	case <-c.engine.done:
	}
	return progress{}, errGone
}

// finish waits until the job has all its tokens.
func (c *call) finish() (progress, error) {
	for {
		p, err := c.wait()
		if err != nil || p.finished {
			return p, err
		}
	}
}

// answer writes a whole JSON answer, or its start if the fault is to cut it.
func (c *call) answer(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if c.fault.Cut == 0 {
		return write(c.rw, http.StatusOK, body)
	}
	c.rw.Header().Set("Content-Type", "application/json")
	c.rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = c.rw.Write(body[:min(c.fault.Cut, len(body)-1)])
	_ = http.NewResponseController(c.rw).Flush()
	return errCut
}

// reply answers v and ends the request.
func (c *call) reply(v any) (outcome, error) { return fate(stopped, c.answer(v)) }

// fate is how a request ended whose answer was written with err; whole is the
// outcome if all of it was.
func fate(whole outcome, err error) (outcome, error) {
	if err == nil {
		return whole, nil
	}
	var refusal *apiError
	switch {
	case errors.Is(err, errTold):
		return failed, nil
	case errors.Is(err, errCut), errors.As(err, &refusal):
		return failed, err
	}
	return aborted, err
}

// write sends a JSON body. An error means that the client is gone.
func write(rw http.ResponseWriter, status int, body []byte) error {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(status)
	if _, err := rw.Write(body); err != nil {
		return errGone
	}
	return nil
}

// reset ends the connection with a TCP reset, as a killed process would.
func reset(rw http.ResponseWriter) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
