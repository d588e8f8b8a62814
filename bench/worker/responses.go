package worker

import (
	"encoding/json"
	"time"
)

// serveResponse is POST /v1/responses, for text in and text out. Responses are
// not stored.
func serveResponse(c *call) (outcome, error) {
	var r struct {
		sampling
		Input           json.RawMessage `json:"input"`
		Instructions    string          `json:"instructions"`
		Tools           json.RawMessage `json:"tools"`
		MaxOutputTokens *int            `json:"max_output_tokens"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	messages, err := responseInput(r.Input)
	if err != nil {
		return refused, err
	}
	if r.Instructions != "" {
		text, _ := json.Marshal(r.Instructions) // a string can be marshalled
		messages = append([]turn{{Role: "system", Content: text}}, messages...)
	}
	r.N = nil // this API has one answer
	g, err := c.newGeneration([][]byte{conversation(r.Tools, messages)}, r.sampling, "max_output_tokens", r.MaxOutputTokens)
	if err != nil {
		return refused, err
	}
	d := &response{g: g, id: c.id, created: time.Now().Unix(), model: c.cfg.Model}
	return c.generate(g, d, r.Stream)
}

// responseInput reads the input as turns: a string is the user's, an item without
// a role stands for itself.
func responseInput(raw json.RawMessage) ([]turn, error) {
	var text string
	if len(given(raw)) > 0 && json.Unmarshal(raw, &text) == nil {
		return []turn{{Role: "user", Content: raw}}, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || len(items) == 0 {
		return nil, badRequest("input", "input is missing, empty, or neither text nor a list of items")
	}
	messages := make([]turn, 0, len(items))
	for i, item := range items {
		var m turn
		if err := json.Unmarshal(item, &m); err != nil {
			return nil, badRequest("input", "input[%d] is not an item: %v", i, err)
		}
		if m.Role == "" {
			m = turn{Role: "item", Content: item}
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// response is the dialect of OpenAI's responses.
type response struct {
	g       *generation
	id      string
	created int64
	model   string
	number  int // of the next event
}

func (d *response) send(e *events, kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, d.number
	d.number++
	e.send(kind, fields)
}

// inPart is the place in the answer that the events of the text name.
func (d *response) inPart(fields object) object {
	fields["item_id"], fields["output_index"], fields["content_index"] = "msg_"+d.id, 0, 0
	return fields
}

func (d *response) begin(e *events) {
	d.send(e, "response.created", object{"response": d.body("in_progress", nil, nil)})
	d.send(e, "response.in_progress", object{"response": d.body("in_progress", nil, nil)})
	d.send(e, "response.output_item.added", object{"output_index": 0, "item": d.item("in_progress", nil)})
	d.send(e, "response.content_part.added", d.inPart(object{"part": textPart("")}))
}

func (d *response) token(e *events, _ int, text string) {
	d.send(e, "response.output_text.delta", d.inPart(object{"delta": text, "logprobs": []any{}}))
}

func (d *response) end(e *events) {
	text := d.g.text(0)
	d.send(e, "response.output_text.done", d.inPart(object{"text": text, "logprobs": []any{}}))
	d.send(e, "response.content_part.done", d.inPart(object{"part": textPart(text)}))
	d.send(e, "response.output_item.done", object{"output_index": 0, "item": d.item(d.status(), []any{textPart(text)})})
	d.send(e, "response."+d.status(), object{"response": d.whole()})
}

func (d *response) whole() any {
	u := d.g.usage()
	return d.body(d.status(), []any{d.item(d.status(), []any{textPart(d.g.text(0))})}, object{
		"input_tokens": u.prompt, "input_tokens_details": object{"cached_tokens": u.cached},
		"output_tokens": u.completion, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": u.prompt + u.completion,
	})
}

func (d *response) status() string {
	if d.g.ended == truncated {
		return "incomplete"
	}
	return "completed"
}

func (d *response) body(status string, output []any, usage any) object {
	b := object{
		"id": "resp_" + d.id, "object": "response", "created_at": d.created, "model": d.model,
		"status": status, "output": output, "usage": usage, "error": nil, "incomplete_details": nil,
		"instructions": nil, "metadata": object{}, "parallel_tool_calls": true, "tool_choice": "auto",
		"tools": []any{}, "temperature": 1, "top_p": 1,
	}
	if output == nil {
		b["output"] = []any{}
	}
	if d.g.handover != nil {
		b["kv_transfer_params"] = d.g.handover
	}
	if status == "incomplete" {
		b["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	return b
}

func (d *response) item(status string, content []any) object {
	if content == nil {
		content = []any{}
	}
	return object{"id": "msg_" + d.id, "type": "message", "role": "assistant", "status": status, "content": content}
}

func textPart(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}
