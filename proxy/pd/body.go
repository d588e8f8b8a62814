package pd

import "loadstar/proxy/rawjson"

// kvField is the member that carries transfer parameters, both ways. Engines look
// for it in the arguments that they don't know by name as well.
const (
	kvField   = "kv_transfer_params"
	vllmArgs  = "vllm_xargs"
	extraArgs = "extra_args"
)

var (
	one     = []byte("1")
	literal = struct{ null, no []byte }{[]byte("null"), []byte("false")}
)

// AppendPrefill appends the body of the request to the prefill worker: the
// client's body, asking for one token, unstreamed, with kv as its transfer
// parameters. It reports false, and appends nothing, if body is not a JSON
// object.
func AppendPrefill(dst, body []byte, kind Kind, kv []byte) ([]byte, bool) {
	stream := rawjson.Edit{Name: "stream", Value: literal.no}
	options := rawjson.Edit{Op: rawjson.Delete, Name: "stream_options"}
	params := rawjson.Edit{Name: kvField, Value: kv}
	switch kind {
	case TokensIn:
		return rawjson.AppendEdited(dst, body, []rawjson.Edit{
			{Name: "sampling_params", With: appendOneToken}, stream, options, params,
		})
	case Responses:
		return rawjson.AppendEdited(dst, body, []rawjson.Edit{
			{Name: "max_output_tokens", Value: one},
			stream, options, params,
			{Op: rawjson.Replace, Name: vllmArgs, With: appendWithoutKV},
			{Op: rawjson.Replace, Name: extraArgs, With: appendWithoutKV},
		})
	}
	return rawjson.AppendEdited(dst, body, []rawjson.Edit{
		{Name: "max_tokens", Value: one},
		{Name: "min_tokens", Value: one},
		{Op: rawjson.Replace, Name: "max_completion_tokens", Value: one},
		{Op: rawjson.Replace, Name: "n", Value: one}, // the blocks are the same
		{Op: rawjson.Delete, Name: "best_of"},
		stream, options, params,
		{Op: rawjson.Replace, Name: vllmArgs, With: appendWithoutKV},
		{Op: rawjson.Replace, Name: extraArgs, With: appendWithoutKV},
	})
}

// appendOneToken appends the sampling parameters old for one token.
func appendOneToken(dst, old []byte) []byte {
	if len(old) == 0 || string(old) == "null" {
		old = []byte("{}")
	}
	return rawjson.AppendOr(dst, old, []rawjson.Edit{
		{Name: "max_tokens", Value: one},
		{Name: "min_tokens", Value: one},
		{Op: rawjson.Replace, Name: "n", Value: one},
		{Op: rawjson.Delete, Name: "best_of"},
		{Op: rawjson.Replace, Name: extraArgs, With: appendWithoutKV},
	})
}

// AppendDecode appends the body of the request to the decode worker: the
// client's body with kv as its transfer parameters, or with none if kv is empty.
// It reports false, and appends nothing, if body is not a JSON object.
func AppendDecode(dst, body []byte, kind Kind, kv []byte) ([]byte, bool) {
	params := rawjson.Edit{Name: kvField, Value: kv}
	if len(kv) == 0 {
		params.Op = rawjson.Delete
	}
	if kind == TokensIn {
		return rawjson.AppendEdited(dst, body, []rawjson.Edit{
			params,
			{Op: rawjson.Replace, Name: "sampling_params", With: appendOwnSampling},
		})
	}
	return rawjson.AppendEdited(dst, body, []rawjson.Edit{
		params,
		{Op: rawjson.Replace, Name: vllmArgs, With: appendWithoutKV},
		{Op: rawjson.Replace, Name: extraArgs, With: appendWithoutKV},
	})
}

// AppendRescue appends the body of a request that has a decode worker fetch, and
// so free, the blocks of a client that has left. kv is what the decode request
// would have had. It reports false, and appends nothing, if body is not a JSON
// object.
func AppendRescue(dst, body []byte, kind Kind, kv []byte) ([]byte, bool) {
	return AppendPrefill(dst, body, kind, kv)
}

func appendOwnSampling(dst, old []byte) []byte {
	return rawjson.AppendOr(dst, old, []rawjson.Edit{{Op: rawjson.Replace, Name: extraArgs, With: appendWithoutKV}})
}

// appendWithoutKV appends extra arguments without transfer parameters.
func appendWithoutKV(dst, old []byte) []byte {
	return rawjson.AppendOr(dst, old, []rawjson.Edit{{Op: rawjson.Delete, Name: kvField}})
}
