package trace

import (
	"encoding/hex"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// The messages of OTLP in its JSON form: ids in hex, 64-bit numbers as text, enums as
// numbers.
type (
	exportJSON struct {
		ResourceSpans []resourceJSON `json:"resourceSpans"`
	}
	resourceJSON struct {
		Resource   attributesJSON `json:"resource"`
		ScopeSpans []scopeJSON    `json:"scopeSpans"`
	}
	attributesJSON struct {
		Attributes []attributeJSON `json:"attributes"`
	}
	scopeJSON struct {
		Scope nameJSON   `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	nameJSON struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	spanJSON struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		State      string          `json:"traceState,omitempty"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Flags      uint32          `json:"flags"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []attributeJSON `json:"attributes,omitempty"`
		Dropped    int             `json:"droppedAttributesCount,omitempty"`
		Events     []eventJSON     `json:"events,omitempty"`
		Status     statusJSON      `json:"status"`
	}
	eventJSON struct {
		Time string `json:"timeUnixNano"`
		Name string `json:"name"`
	}
	statusJSON struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"`
	}
	attributeJSON struct {
		Key   string    `json:"key"`
		Value valueJSON `json:"value"`
	}
	valueJSON struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

// encode puts spans of one tracer, at least one, into a message.
func encode(spans []sdk.ReadOnlySpan) exportJSON {
	scope := spans[0].InstrumentationScope()
	out := scopeJSON{Scope: nameJSON{scope.Name, scope.Version}, Spans: make([]spanJSON, len(spans))}
	for i, s := range spans {
		out.Spans[i] = encodeSpan(s)
	}
	return exportJSON{[]resourceJSON{{
		Resource:   attributesJSON{encodeAttributes(spans[0].Resource().Attributes())},
		ScopeSpans: []scopeJSON{out},
	}}}
}

func encodeSpan(s sdk.ReadOnlySpan) spanJSON {
	// Whether the parent is remote is told beside the flags of the trace.
	const hasRemote, remote = 0x100, 0x200
	at, parent := s.SpanContext(), s.Parent()
	out := spanJSON{
		TraceID: at.TraceID().String(), SpanID: at.SpanID().String(), State: at.TraceState().String(), Flags: uint32(at.TraceFlags()) | hasRemote,
		Name: s.Name(), Kind: encodeKind(s.SpanKind()), Start: encodeTime(s.StartTime()), End: encodeTime(s.EndTime()),
		Attributes: encodeAttributes(s.Attributes()), Dropped: s.DroppedAttributes(), Status: encodeStatus(s.Status()),
	}
	if id := parent.SpanID(); id.IsValid() {
		out.Parent = hex.EncodeToString(id[:])
		if parent.IsRemote() {
			out.Flags |= remote
		}
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, eventJSON{encodeTime(e.Time), e.Name})
	}
	return out
}

func encodeKind(k api.SpanKind) int {
	switch k {
	case api.SpanKindServer:
		return 2
	case api.SpanKindClient:
		return 3
	default:
		return 1
	}
}

func encodeStatus(s sdk.Status) statusJSON {
	if s.Code == codes.Error {
		return statusJSON{s.Description, 2}
	}
	return statusJSON{}
}

func encodeTime(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func encodeAttributes(attrs []attribute.KeyValue) []attributeJSON {
	out := make([]attributeJSON, len(attrs))
	for i, a := range attrs {
		out[i] = attributeJSON{string(a.Key), encodeValue(a.Value)}
	}
	return out
}

func encodeValue(v attribute.Value) valueJSON {
	switch v.Type() {
	case attribute.INT64:
		n := strconv.FormatInt(v.AsInt64(), 10)
		return valueJSON{Int: &n}
	case attribute.BOOL:
		b := v.AsBool()
		return valueJSON{Bool: &b}
	default:
		s := v.String()
		return valueJSON{String: &s}
	}
}
