package proxy

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"loadstar/actors"
	"loadstar/proxy/formdata"
	"loadstar/proxy/rawjson"

	"github.com/valyala/fasthttp"
)

// alias is a model that clients know by another name as well.
type alias struct {
	name  string // the other name
	model string
	json  []byte // model, as it stands in a body
}

func newAliases(of map[string]string) map[string]alias {
	all := make(map[string]alias, len(of))
	for name, model := range of {
		all[name] = alias{name: name, model: model, json: mustJSON(model)}
	}
	return all
}

// findModel reads the body's model, and puts another name for it right: in the body
// nothing else changes. So both names have one routing key. It reports false if the
// body is not readable JSON.
func (x *exchange) findModel() bool {
	x.asked = ""
	s := &x.scan
	if !looksJSON(x.body) || !s.Scan(x.body) {
		return false
	}
	if len(x.p.aliases) == 0 {
		return true
	}
	a, ok := x.p.aliases[string(s.Body.Model)]
	if !ok {
		return true
	}
	edited, ok := rawjson.AppendEdited(make([]byte, 0, len(x.body)+len(a.json)), x.body,
		[]rawjson.Edit{{Op: rawjson.Replace, Name: "model", Value: a.json}})
	if !ok {
		return true
	}
	x.asked, x.body = a.name, edited
	return s.Scan(x.body)
}

// readForm makes of a body that is no JSON what is to be known of it: its head, and
// the model if it is a form with one. Another name for that is put right there, by
// itself.
func (x *exchange) readForm() {
	from, to, ok := formdata.Field(x.body, x.ctx.Request.Header.ContentType(), "model")
	if a, alias := x.p.aliases[string(x.body[from:to])]; ok && alias {
		x.asked = a.name
		x.body = slices.Replace(x.body, from, to, []byte(a.model)...)
		to = from + len(a.model)
	}
	x.scan.Raw(x.body)
	if ok {
		x.scan.Body.Model = x.body[from:to]
	}
}

// modelInPath is the model that a path below /v1/models names, or nil.
func modelInPath(path []byte) []byte {
	const above = "/v1/models/"
	if len(path) <= len(above) || string(path[:len(above)]) != above {
		return nil
	}
	name := path[len(above):]
	if bytes.IndexByte(name, '%') < 0 {
		return name
	}
	plain, err := url.PathUnescape(string(name))
	if err != nil {
		return nil
	}
	return []byte(plain)
}

// noModel is the answer where nobody serves the model. It has the name that the
// client used.
func (x *exchange) noModel() *problem {
	name := x.asked
	if name == "" {
		name = string(x.query.Model)
	}
	if len(name) > actors.MaxModelName {
		name = name[:actors.MaxModelName] + "…"
	}
	return &problem{
		fasthttp.StatusNotFound, kindInvalid, "model_not_found",
		"The model `" + strings.ToValidUTF8(name, "\ufffd") + "` does not exist.", 0,
	}
}
