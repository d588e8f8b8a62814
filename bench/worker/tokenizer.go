package worker

import "encoding/json"

// serveTokenize is POST /tokenize, of a text or a chat. It takes no engine time.
func serveTokenize(c *call) (outcome, error) {
	var r struct {
		Model    string          `json:"model"`
		Prompt   *string         `json:"prompt"`
		Messages []turn          `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	var text []byte
	switch {
	case r.Prompt != nil:
		text = []byte(*r.Prompt)
	case len(r.Messages) > 0:
		text = conversation(r.Tools, r.Messages)
	default:
		return refused, badRequest("prompt", "neither prompt nor messages is given")
	}
	ids := tokenize(text)
	return c.reply(object{"count": len(ids), "max_model_len": maxModelLen, "tokens": ids, "token_strs": nil})
}

// serveDetokenize is POST /detokenize.
func serveDetokenize(c *call) (outcome, error) {
	var r struct {
		Model  string   `json:"model"`
		Tokens []uint32 `json:"tokens"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	if r.Tokens == nil {
		return refused, badRequest("tokens", "tokens is missing")
	}
	return c.reply(object{"prompt": string(detokenize(r.Tokens))})
}
