package worker

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// dimensions is the length of an embedding.
const dimensions = 16

// read prefills texts and generates nothing. It returns the prompts and their
// tokens.
func (c *call) read(texts [][]byte) ([]prompt, int, outcome, error) {
	tokens := 0
	ps := make([]prompt, 0, len(texts))
	for _, text := range texts {
		ps = append(ps, newPrompt(text, ""))
		tokens += tokenCount(len(text))
	}
	if ended, err := c.submit(newJob(ps, len(ps), 0)); err != nil {
		return nil, 0, ended, err
	}
	if _, err := c.finish(); err != nil {
		return nil, 0, aborted, err
	}
	return ps, tokens, stopped, nil
}

// serveEmbeddings is POST /v1/embeddings. A text's embedding is a unit vector
// that depends on the text alone.
func serveEmbeddings(c *call) (outcome, error) {
	var r struct {
		Model          string          `json:"model"`
		Input          json.RawMessage `json:"input"`
		EncodingFormat string          `json:"encoding_format"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	texts, err := prompts("input", r.Input)
	if err != nil {
		return refused, err
	}
	ps, tokens, ended, err := c.read(texts)
	if err != nil {
		return ended, err
	}
	data := make([]object, 0, len(ps))
	for i, p := range ps {
		var vector any = embedding(p.print)
		if r.EncodingFormat == "base64" {
			vector = packed(embedding(p.print))
		}
		data = append(data, object{"object": "embedding", "index": i, "embedding": vector})
	}
	return c.reply(object{
		"id": "embd-" + c.id, "object": "list", "created": time.Now().Unix(), "model": c.cfg.Model, "data": data,
		"usage": object{"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
	})
}

func embedding(print uint64) []float32 {
	var v [dimensions]float64
	var square float64
	for i := range v {
		v[i] = float64(mix(print+uint64(i))>>11)/(1<<52) - 1
		square += v[i] * v[i]
	}
	unit := make([]float32, 0, dimensions)
	for _, x := range v {
		unit = append(unit, float32(x/math.Sqrt(square)))
	}
	return unit
}

// packed is a vector as OpenAI's base64 encoding has it.
func packed(v []float32) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// serveRerank is POST /v1/rerank and /rerank. A document's score is the share of
// the query's words that it holds.
func serveRerank(c *call) (outcome, error) {
	var r struct {
		Model     string   `json:"model"`
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
		TopN      int      `json:"top_n"`
	}
	if err := c.decode(&r); err != nil {
		return refused, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return refused, err
	}
	words := strings.Fields(r.Query)
	if len(words) == 0 {
		return refused, badRequest("query", "query is missing or blank")
	}
	if n := len(r.Documents); n == 0 || n > maxStreams {
		return refused, badRequest("documents", "documents has %d entries, not from 1 to %d", n, maxStreams)
	}
	texts := make([][]byte, 0, len(r.Documents))
	results := make([]ranking, 0, len(r.Documents))
	for i, text := range r.Documents {
		texts = append(texts, []byte(r.Query+"\n"+text))
		results = append(results, ranking{Index: i, Document: object{"text": text}, Score: share(words, text)})
	}
	_, tokens, ended, err := c.read(texts)
	if err != nil {
		return ended, err
	}
	slices.SortStableFunc(results, func(a, b ranking) int { return cmp.Compare(b.Score, a.Score) })
	if r.TopN > 0 && r.TopN < len(results) {
		results = results[:r.TopN]
	}
	return c.reply(object{
		"id": "rerank-" + c.id, "model": c.cfg.Model, "results": results, "usage": object{"total_tokens": tokens},
	})
}

type ranking struct {
	Index    int     `json:"index"`
	Document object  `json:"document"`
	Score    float64 `json:"relevance_score"`
}

func share(words []string, text string) float64 {
	found := 0
	for _, w := range words {
		if strings.Contains(text, w) {
			found++
		}
	}
	return float64(found) / float64(len(words))
}
