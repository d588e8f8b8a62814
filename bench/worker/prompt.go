package worker

import (
	"bytes"
	"encoding/json"
)

// This file turns the prompts of the different APIs into the text that is cached
// and counted. A conversation's text is a prefix of the same conversation's a
// turn later, so a growing chat hits the cache.

// turn is one message of a conversation.
type turn struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// conversation is the text of a chat: tools first, then the turns, then the
// mark after which the answer starts.
func conversation(tools json.RawMessage, messages []turn) []byte {
	var text bytes.Buffer
	text.Write(given(tools))
	for _, m := range messages {
		text.WriteString("<|" + m.Role + "|>")
		writeContent(&text, m.Content)
		text.Write(given(m.ToolCalls))
		text.WriteByte('\n')
	}
	text.WriteString("<|assistant|>")
	return text.Bytes()
}

// goOn is the text of a chat whose last turn is an answer that isn't whole yet. The
// answer goes on with the words that would have followed.
func (s *sampling) goOn(tools json.RawMessage, messages []turn) []byte {
	last := len(messages) - 1
	s.base = conversation(tools, messages[:last])
	var said bytes.Buffer
	writeContent(&said, messages[last].Content)
	s.said = len(bytes.Fields(said.Bytes()))
	return append(bytes.Clone(s.base), said.Bytes()...)
}

// writeContent appends a message's content: a string, or parts of which those
// with a text are text and the others stand for themselves, byte by byte.
func writeContent(text *bytes.Buffer, content json.RawMessage) {
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		text.WriteString(whole)
		return
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		text.Write(given(content))
		return
	}
	for _, raw := range parts {
		var part struct {
			Text *string `json:"text"`
		}
		if json.Unmarshal(raw, &part) == nil && part.Text != nil {
			text.WriteString(*part.Text)
		} else {
			text.Write(raw)
		}
	}
}

// given is raw, or nothing if it is null.
func given(raw json.RawMessage) []byte {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

// prompts reads the prompt of a completion or the input of an embedding: a
// string, token ids, or a list of either. The field's name is for the error.
func prompts(field string, raw json.RawMessage) ([][]byte, error) {
	if p, ok := onePrompt(raw); ok {
		return [][]byte{p}, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil, badRequest(field, "%s is missing, empty, or neither text nor token ids", field)
	}
	if len(list) > maxStreams {
		return nil, badRequest(field, "%s has %d entries, more than %d", field, len(list), maxStreams)
	}
	all := make([][]byte, 0, len(list))
	for i, entry := range list {
		p, ok := onePrompt(entry)
		if !ok {
			return nil, badRequest(field, "%s[%d] is neither text nor token ids", field, i)
		}
		all = append(all, p)
	}
	return all, nil
}

func onePrompt(raw json.RawMessage) ([]byte, bool) {
	if len(given(raw)) == 0 {
		return nil, false
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text), true
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		return idBytes(ids), true
	}
	return nil, false
}
