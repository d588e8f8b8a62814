package worker

import "strings"

// vocabulary is what answers are made of.
var vocabulary = [...]string{
	"a", "again", "almost", "always", "and", "answer", "around", "before",
	"behind", "between", "block", "bright", "calm", "carries", "clear", "close",
	"cold", "count", "deep", "door", "early", "empty", "every", "fair",
	"far", "field", "finds", "first", "follows", "for", "from", "garden",
	"gives", "grows", "hand", "high", "holds", "home", "in", "keeps",
	"last", "leads", "light", "long", "many", "near", "never", "new",
	"of", "old", "one", "open", "over", "path", "quiet", "river",
	"road", "small", "stone", "the", "through", "turns", "under", "water",
}

// sentence is how many words stand between two full stops.
const sentence = 12

// word is token i of the answer that seed stands for.
func word(seed uint64, i int) string {
	w := vocabulary[mix(seed+uint64(i)*0x9e3779b97f4a7c15)%uint64(len(vocabulary))]
	if i%sentence == 0 {
		w = strings.ToUpper(w[:1]) + w[1:]
	}
	if i%sentence == sentence-1 {
		w += "."
	}
	if i > 0 {
		w = " " + w
	}
	return w
}

// mix spreads x over 64 bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
