// Package rawjson reads and edits JSON text in place, without unmarshalling it:
// what isn't edited keeps every byte, spacing, the text of numbers and the order
// of members included.
//
// # What is checked
//
// The object or array at hand is read strictly: quotes, colons, commas and its
// closing bracket must be there. The values in it are stepped over by matching
// quotes and brackets and are not checked; Python's NaN and Infinity pass as
// numbers. Names are compared after their escapes are resolved. Of members with
// the same name Member takes the last, as most parsers do, and an edit reaches
// them all, so that every parser agrees on the result.
//
// # Cost
//
// Time is linear in the text for every input and there is no recursion. Nothing
// allocates but what grows the caller's buffer.
package rawjson
