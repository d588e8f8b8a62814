package worker

import (
	"encoding/json"
	"time"
)

// serveCompletion is POST /v1/completions.
func serveCompletion(c *call) (outcome, error) {
	var r struct {
		sampling
		Prompt        json.RawMessage `json:"prompt"`
		MaxTokens     *int            `json:"max_tokens"`
		StreamOptions streamOptions   `json:"stream_options"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	texts, err := prompts("prompt", r.Prompt)
	if err != nil {
		return refused, err
	}
	g, err := c.newGeneration(texts, r.sampling, "max_tokens", r.MaxTokens)
	if err != nil {
		return refused, err
	}
	d := &completion{
		g: g, id: "cmpl-" + c.id, created: time.Now().Unix(), model: c.cfg.Model,
		withUsage: r.StreamOptions.IncludeUsage,
	}
	return c.generate(g, d, r.Stream)
}

// completion is the dialect of OpenAI's text completions.
type completion struct {
	g         *generation
	id        string
	created   int64
	model     string
	withUsage bool
}

type completionBody struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *openAIUsage       `json:"usage,omitempty"`

	KV json.RawMessage `json:"kv_transfer_params,omitempty"`
}

type completionChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	Logprobs     *struct{} `json:"logprobs"` // always null
	FinishReason *string   `json:"finish_reason"`
}

func (d *completion) body() completionBody {
	return completionBody{ID: d.id, Object: "text_completion", Created: d.created, Model: d.model, Choices: []completionChoice{}}
}

func (d *completion) sendText(e *events, stream int, text string, reason *string) {
	b := d.body()
	b.Choices = append(b.Choices, completionChoice{Index: stream, Text: text, FinishReason: reason})
	e.send("", b)
}

func (d *completion) begin(*events) {}

func (d *completion) token(e *events, stream int, text string) { d.sendText(e, stream, text, nil) }

func (d *completion) end(e *events) {
	reason := d.g.reason()
	for stream := range d.g.job.streams {
		d.sendText(e, stream, "", &reason)
	}
	if d.withUsage {
		b := d.body()
		b.Usage = d.g.openAIUsage()
		e.send("", b)
	}
	e.done()
}

func (d *completion) whole() any {
	b := d.body()
	reason := d.g.reason()
	for stream := range d.g.job.streams {
		b.Choices = append(b.Choices, completionChoice{Index: stream, Text: d.g.text(stream), FinishReason: &reason})
	}
	b.Usage, b.KV = d.g.openAIUsage(), d.g.handover
	return b
}
