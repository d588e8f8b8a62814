package worker

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestNewPrompt(t *testing.T) {
	text := []byte(strings.Repeat("0123456789abcdef", 20)) // 320 bytes, 5 blocks
	tests := []struct {
		name             string
		size             int
		blocks, reusable int
	}{
		{"nothing", 0, 0, 0},
		{"one byte less than a block", 63, 0, 0},
		{"one block: its last token is computed anyway", 64, 1, 0},
		{"one byte more than a block", 65, 1, 1},
		{"two blocks", 128, 2, 1},
		{"five blocks", 320, 5, 4},
	}
	whole := newPrompt(text, "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPrompt(text[:tt.size], "")
			if len(p.chain) != tt.blocks || p.usable() != tt.reusable {
				t.Errorf("%d blocks, %d usable, want %d and %d", len(p.chain), p.usable(), tt.blocks, tt.reusable)
			}
			if !slices.Equal(p.chain, whole.chain[:tt.blocks]) {
				t.Errorf("chain %x is not the start of %x", p.chain, whole.chain)
			}
		})
	}
}

func TestNewPromptTellsTextsApart(t *testing.T) {
	a := strings.Repeat("a", 128)
	tests := []struct {
		name         string
		text, salt   string
		shared       int
		differPrints bool
	}{
		{"same", a, "", 2, false},
		{"first block differs", "b" + a[1:], "", 0, true},
		{"second block differs", a[:127] + "b", "", 1, true},
		{"only the tail differs", a + "x", "", 2, true},
		{"salted", a, "salt", 0, true},
	}
	p := newPrompt([]byte(a), "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newPrompt([]byte(tt.text), tt.salt)
			shared := 0
			for shared < 2 && p.chain[shared] == q.chain[shared] {
				shared++
			}
			if shared != tt.shared || (p.print != q.print) != tt.differPrints {
				t.Errorf("%d blocks shared, prints differ %t, want %d, %t", shared, p.print != q.print, tt.shared, tt.differPrints)
			}
		})
	}
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("hello there"))
	f.Add([]byte("größer als 4"))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.ReplaceAll(text, []byte{0}, nil)
		ids := tokenize(text)
		if len(ids) != tokenCount(len(text)) {
			t.Errorf("%d tokens, want %d", len(ids), tokenCount(len(text)))
		}
		if got := detokenize(ids); !bytes.Equal(got, text) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func TestPromptAsIDsIsThePromptAsText(t *testing.T) {
	text := []byte(strings.Repeat("four", 40))
	got, want := newPrompt(idBytes(tokenize(text)), ""), newPrompt(text, "")
	if got.print != want.print || !slices.Equal(got.chain, want.chain) {
		t.Errorf("ids hash to %x, want %x", got.chain, want.chain)
	}
}
