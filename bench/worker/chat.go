package worker

import (
	"encoding/json"
	"time"
)

// openAIUsage is usage as OpenAI's chat and completion APIs write it.
type openAIUsage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	Details          promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func (g *generation) openAIUsage() *openAIUsage {
	u := g.usage()
	return &openAIUsage{
		PromptTokens: u.prompt, TotalTokens: u.prompt + u.completion, CompletionTokens: u.completion,
		Details: promptDetails{CachedTokens: u.cached},
	}
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// serveChat is POST /v1/chat/completions.
func serveChat(c *call) (outcome, error) {
	var r struct {
		sampling
		Messages            []turn          `json:"messages"`
		Tools               json.RawMessage `json:"tools"`
		MaxTokens           *int            `json:"max_tokens"`
		MaxCompletionTokens *int            `json:"max_completion_tokens"`
		StreamOptions       streamOptions   `json:"stream_options"`
		Continue            bool            `json:"continue_final_message"`
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
	limit, name := r.MaxTokens, "max_tokens"
	if r.MaxCompletionTokens != nil {
		limit, name = r.MaxCompletionTokens, "max_completion_tokens"
	}
	text := conversation(r.Tools, r.Messages)
	if last := r.Messages[len(r.Messages)-1]; r.Continue && last.Role == "assistant" {
		text = r.goOn(r.Tools, r.Messages)
	}
	g, err := c.newGeneration([][]byte{text}, r.sampling, name, limit)
	if err != nil {
		return refused, err
	}
	d := &chat{
		g: g, id: "chatcmpl-" + c.id, created: time.Now().Unix(), model: c.cfg.Model,
		withUsage: r.StreamOptions.IncludeUsage,
	}
	return c.generate(g, d, r.Stream)
}

// chat is the dialect of OpenAI's chat completions.
type chat struct {
	g         *generation
	id        string
	created   int64
	model     string
	withUsage bool
}

type chatBody struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *openAIUsage `json:"usage,omitempty"`

	KV json.RawMessage `json:"kv_transfer_params,omitempty"`
}

type chatChoice struct {
	Index        int       `json:"index"`
	Message      *chatText `json:"message,omitempty"` // whole answers
	Delta        *chatText `json:"delta,omitempty"`   // streams
	Logprobs     *struct{} `json:"logprobs"`          // always null
	FinishReason *string   `json:"finish_reason"`
}

type chatText struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

func (d *chat) body(object string) chatBody {
	return chatBody{ID: d.id, Object: object, Created: d.created, Model: d.model, Choices: []chatChoice{}}
}

func (d *chat) sendDelta(e *events, stream int, delta chatText, reason *string) {
	b := d.body("chat.completion.chunk")
	b.Choices = append(b.Choices, chatChoice{Index: stream, Delta: &delta, FinishReason: reason})
	e.send("", b)
}

func (d *chat) begin(e *events) {
	empty := ""
	for stream := range d.g.job.streams {
		d.sendDelta(e, stream, chatText{Role: "assistant", Content: &empty}, nil)
	}
}

func (d *chat) token(e *events, stream int, text string) {
	d.sendDelta(e, stream, chatText{Content: &text}, nil)
}

func (d *chat) end(e *events) {
	reason := d.g.reason()
	for stream := range d.g.job.streams {
		d.sendDelta(e, stream, chatText{}, &reason)
	}
	if d.withUsage {
		b := d.body("chat.completion.chunk")
		b.Usage = d.g.openAIUsage()
		e.send("", b)
	}
	e.done()
}

func (d *chat) whole() any {
	b := d.body("chat.completion")
	reason := d.g.reason()
	for stream := range d.g.job.streams {
		text := d.g.text(stream)
		b.Choices = append(b.Choices, chatChoice{
			Index: stream, Message: &chatText{Role: "assistant", Content: &text}, FinishReason: &reason,
		})
	}
	b.Usage, b.KV = d.g.openAIUsage(), d.g.handover
	return b
}
