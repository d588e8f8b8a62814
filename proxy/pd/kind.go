package pd

// Kind is the shape of a request, by its path.
type Kind uint8

// The kinds of requests that are split. Other paths generate nothing and go to
// one worker.
const (
	Unsplit     Kind = iota
	Chat             // /v1/chat/completions
	Completions      // /v1/completions
	Responses        // /v1/responses
	Messages         // /v1/messages
	Generate         // /generate
	TokensIn         // /inference/v1/generate
)

// KindOf is the kind of the requests to path.
func KindOf(path []byte) Kind {
	switch string(path) {
	case "/v1/chat/completions":
		return Chat
	case "/v1/completions":
		return Completions
	case "/v1/responses":
		return Responses
	case "/v1/messages":
		return Messages
	case "/generate":
		return Generate
	case "/inference/v1/generate":
		return TokensIn
	}
	return Unsplit
}

// hasUsage reports whether the usage in answers of this kind is put right.
func (k Kind) hasUsage() bool { return k == Chat || k == Completions || k == Responses }
