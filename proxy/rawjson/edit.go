package rawjson

import "slices"

// Op says what an Edit does to the members of its name.
type Op uint8

// The kinds of edits.
const (
	Set     Op = iota // gives them the value, or appends a member if there is none
	Replace           // gives them the value
	Delete            // removes them
)

// Edit is a change to the members of one name in an object. If there are several,
// the first one gets Value and the others are removed, so that the result grows
// by one value at most; With changes each of them in its place.
type Edit struct {
	Op   Op
	Name string // plain: at most MaxName bytes, none of which needs an escape

	// Value is the new value, raw.
	Value []byte

	// With, if there is one, appends the new value to dst in place of Value. old
	// is the value that it replaces, or nil if the member is a new one.
	With func(dst, old []byte) []byte
}

// maxEdits is the number of bits that say which edits found their members.
const maxEdits = 64

// AppendOr appends value with the edits made to it, or as it is if it is no object.
func AppendOr(dst, value []byte, edits []Edit) []byte {
	dst, ok := AppendEdited(dst, value, edits)
	if !ok {
		dst = append(dst, value...)
	}
	return dst
}

// AppendEdited appends object with the edits made to it. New members stand
// behind the others in the order of the edits, written compactly. With a member
// that is deleted goes one comma and the space next to it; every other byte
// stays. Of several edits of one name the first counts; more than 64 panic.
//
// It reports false, and appends nothing, if object is not a JSON object that
// could be read to its end.
func AppendEdited(dst, object []byte, edits []Edit) ([]byte, bool) {
	if len(edits) > maxEdits {
		panic("too many edits of a JSON object")
	}
	o, ok := OpenObject(object)
	if !ok {
		return dst, false
	}
	size := len(dst)
	var seen uint64   // edits whose member there is
	copied := 0       // what stands before it is in dst or left out
	last := o.i       // where the last member that stays ends, or the brace
	anyStays := false // a member stays
	for {
		name, value, ok := o.Next()
		if !ok {
			break
		}
		start, end := o.Span()
		n := editOf(edits, name)
		remove := false
		if n >= 0 {
			e := &edits[n]
			remove = e.Op == Delete || e.With == nil && seen&(1<<n) != 0
			seen |= 1 << n
		}
		switch {
		case remove:
			if anyStays {
				dst = append(dst, object[min(copied, last):last]...)
			} else if copied == 0 {
				dst = append(dst, object[:start]...)
			}
			copied = end
			continue
		case !anyStays && copied > 0:
			copied = start // the comma was that of a member that is gone
		}
		anyStays, last = true, end
		if n >= 0 {
			dst = append(dst, object[copied:end-len(value)]...)
			dst = edits[n].appendValue(dst, value)
			copied = end
		}
	}
	if !o.Ended() {
		return dst[:size], false
	}
	if copied < last {
		dst = append(dst, object[copied:last]...)
		copied = last
	}
	for n := range edits {
		if e := &edits[n]; e.Op == Set && seen&(1<<n) == 0 && !hasEditOf(edits[:n], e.Name) {
			if anyStays {
				dst = append(dst, ',')
			}
			anyStays = true
			dst = append(dst, '"')
			dst = append(dst, e.Name...)
			dst = append(dst, `":`...)
			dst = e.appendValue(dst, nil)
		}
	}
	return append(dst, object[copied:]...), true
}

// editOf is the index of the edit of the members called name, or -1.
func editOf(edits []Edit, name []byte) int {
	escaped := HasEscape(name)
	for n := range edits {
		if string(name) == edits[n].Name || escaped && isEscaped(name, edits[n].Name) {
			return n
		}
	}
	return -1
}

func hasEditOf(edits []Edit, name string) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Name == name })
}

func (e *Edit) appendValue(dst, old []byte) []byte {
	if e.With != nil {
		return e.With(dst, old)
	}
	return append(dst, e.Value...)
}
