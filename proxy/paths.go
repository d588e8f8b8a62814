package proxy

// pathClass is what a request's path is counted under. Paths are the clients'
// to choose, so the classes are a closed list.
type pathClass uint8

// Path classes.
const (
	pathOther pathClass = iota
	pathChat
	pathCompletions
	pathGenerate
	pathTokensIn
	pathEmbeddings
	pathRerank
	pathRerankV1
	pathRerankV2
	pathScore
	pathScoreV1
	pathPooling
	pathClassify
	pathResponses
	pathMessages
	pathTokenize
	pathDetokenize
	pathAudio
	pathModels
	pathAdmin
	pathStatus
	numPathClasses
)

// pathNames are the labels of the classes.
var pathNames = [numPathClasses]string{
	"other", "/v1/chat/completions", "/v1/completions", "/generate", "/inference/v1/generate", "/v1/embeddings",
	"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/pooling", "/classify", "/v1/responses", "/v1/messages",
	"/tokenize", "/detokenize", "/v1/audio", "/v1/models", "admin", "status",
}

// String returns the metric label of the class.
func (c pathClass) String() string { return pathNames[c] }

// workerPaths are the paths that workers serve and this router knows. generates
// marks those that take only a POST, where another method is a mistake that
// need not reach a worker.
var workerPaths = map[string]struct {
	class     pathClass
	generates bool
}{
	"/v1/chat/completions":   {pathChat, true},
	"/v1/completions":        {pathCompletions, true},
	"/generate":              {pathGenerate, true},
	"/inference/v1/generate": {pathTokensIn, true},
	"/v1/embeddings":         {pathEmbeddings, true},
	"/rerank":                {pathRerank, true},
	"/v1/rerank":             {pathRerankV1, true},
	"/v2/rerank":             {pathRerankV2, true},
	"/score":                 {pathScore, true},
	"/v1/score":              {pathScoreV1, true},
	"/pooling":               {pathPooling, true},
	"/classify":              {pathClassify, true},
	"/v1/responses":          {pathResponses, true},
	"/v1/messages":           {pathMessages, true},
	"/tokenize":              {pathTokenize, true},
	"/detokenize":            {pathDetokenize, true},

	"/v1/audio/transcriptions": {pathAudio, true},
	"/v1/audio/translations":   {pathAudio, true},
	"/v1/audio/speech":         {pathAudio, true},
}

// repeatable reports whether a request of this class may be sent to another
// worker though one has seen it: it computes, and leaves nothing behind.
func (c pathClass) repeatable() bool {
	return c != pathOther && c != pathResponses && c < pathModels
}
