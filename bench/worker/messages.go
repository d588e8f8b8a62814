package worker

import "encoding/json"

// serveMessage is POST /v1/messages, Anthropic's API.
func serveMessage(c *call) (outcome, error) {
	var r struct {
		sampling
		System    json.RawMessage `json:"system"`
		Messages  []turn          `json:"messages"`
		Tools     json.RawMessage `json:"tools"`
		MaxTokens *int            `json:"max_tokens"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	if len(r.Messages) == 0 {
		return refused, badRequest("messages", "messages is missing or empty")
	}
	turns := r.Messages
	if len(given(r.System)) > 0 {
		turns = append([]turn{{Role: "system", Content: r.System}}, turns...)
	}
	r.N = nil // this API has one answer
	g, err := c.newGeneration([][]byte{conversation(r.Tools, turns)}, r.sampling, "max_tokens", r.MaxTokens)
	if err != nil {
		return refused, err
	}
	return c.generate(g, &anthropic{g: g, id: "msg_" + c.id, model: c.cfg.Model}, r.Stream)
}

// anthropic is the dialect of Anthropic's messages.
type anthropic struct {
	g         *generation
	id, model string
}

func (d *anthropic) send(e *events, kind string, fields object) {
	fields["type"] = kind
	e.send(kind, fields)
}

func (d *anthropic) begin(e *events) {
	m := d.body([]any{}, nil)
	m["usage"].(object)["output_tokens"] = 0
	d.send(e, "message_start", object{"message": m})
	d.send(e, "content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
}

func (d *anthropic) token(e *events, _ int, text string) {
	d.send(e, "content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
}

func (d *anthropic) end(e *events) {
	d.send(e, "content_block_stop", object{"index": 0})
	d.send(e, "message_delta", object{
		"delta": object{"stop_reason": d.reason(), "stop_sequence": nil}, "usage": d.usage(),
	})
	d.send(e, "message_stop", object{})
}

func (d *anthropic) whole() any {
	return d.body([]any{object{"type": "text", "text": d.g.text(0)}}, d.reason())
}

func (d *anthropic) reason() string {
	if d.g.ended == truncated {
		return "max_tokens"
	}
	return "end_turn"
}

func (d *anthropic) body(content []any, reason any) object {
	b := object{
		"id": d.id, "type": "message", "role": "assistant", "model": d.model, "content": content,
		"stop_reason": reason, "stop_sequence": nil, "usage": d.usage(),
	}
	if d.g.handover != nil {
		b["kv_transfer_params"] = d.g.handover
	}
	return b
}

// usage counts the cached tokens apart from the input, as this API does.
func (d *anthropic) usage() object {
	u := d.g.usage()
	return object{
		"input_tokens": u.prompt - u.cached, "cache_read_input_tokens": u.cached,
		"cache_creation_input_tokens": 0, "output_tokens": u.completion,
	}
}
