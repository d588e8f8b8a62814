package routekey

import "loadstar/proxy/rawjson"

// field numbers the members of a body that matter here.
type field uint8

// From firstSegment on the order is the order in which the prompt's parts are
// strung together. Changing it changes every key.
const (
	fieldOther field = iota
	fieldModel
	fieldStream
	fieldPreviousResponse
	fieldSessionParams
	fieldUser
	fieldSessionID
	fieldUserID
	fieldCacheSalt
	fieldLoraName
	fieldLoraPath
	fieldArgs
	fieldHint
	fieldTools
	fieldFunctions
	fieldInstructions
	fieldSystem
	fieldMessages
	fieldPrompt
	fieldText
	fieldInput
	fieldInputIDs
	fieldTokenIDs
	fieldQuery
	fieldDocuments
	numFields

	firstSegment = fieldTools
)

// values holds the raw value of each field, quotes and brackets included, or
// nil.
type values struct {
	raw  [numFields][]byte
	seen uint32 // bit f is set if the body has field f
}

// read takes the values from an object and reports whether it could be read to
// its end.
func (v *values) read(body []byte) bool {
	o, ok := rawjson.OpenObject(body)
	if !ok {
		return false
	}
	for {
		name, value, ok := o.Next()
		if !ok {
			return o.Ended()
		}
		if f := fieldNamed(name); f != fieldOther {
			v.raw[f] = value
			v.seen |= 1 << f
		}
	}
}

// maxNameRaw is the number of bytes up to which a name with escapes is looked
// at: the longest name of interest with each letter written as \uXXXX.
const maxNameRaw = 6 * len("previous_response_id")

func fieldNamed(name []byte) field {
	if f := fieldPlain(name); f != fieldOther || !rawjson.HasEscape(name) || len(name) > maxNameRaw {
		return f
	}
	var buf [maxNameRaw]byte
	return fieldPlain(rawjson.Unescape(buf[:0], name))
}

// fieldPlain takes a name without escapes.
func fieldPlain(name []byte) field {
	switch string(name) {
	case "model":
		return fieldModel
	case "stream":
		return fieldStream
	case "previous_response_id":
		return fieldPreviousResponse
	case "session_params":
		return fieldSessionParams
	case "user":
		return fieldUser
	case "session_id":
		return fieldSessionID
	case "user_id":
		return fieldUserID
	case "cache_salt":
		return fieldCacheSalt
	case "lora_name":
		return fieldLoraName
	case "lora_path":
		return fieldLoraPath
	case "vllm_xargs":
		return fieldArgs
	case "agent_hint":
		return fieldHint
	case "tools":
		return fieldTools
	case "functions":
		return fieldFunctions
	case "instructions":
		return fieldInstructions
	case "system":
		return fieldSystem
	case "messages":
		return fieldMessages
	case "prompt":
		return fieldPrompt
	case "text":
		return fieldText
	case "input":
		return fieldInput
	case "input_ids":
		return fieldInputIDs
	case "token_ids":
		return fieldTokenIDs
	case "query":
		return fieldQuery
	case "documents":
		return fieldDocuments
	}
	return fieldOther
}
