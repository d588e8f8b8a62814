package main

// nearest gives the candidate that was most likely meant by word, or "" if none
// is near. Of equally near ones the first is taken.
func nearest(word string, candidates []string) string {
	const most = 64 // beyond any name; a distance costs the product of the lengths
	if len(word) > most {
		return ""
	}
	found, least := "", 1+len(word)/4
	for _, c := range candidates {
		if d := distance(word, c); d <= least && (found == "" || d < least) {
			found, least = c, d
		}
	}
	return found
}

// distance is how many letters must be added, dropped, replaced or swapped with
// their neighbour to turn a into b.
func distance(a, b string) int {
	// Three rows of the usual table: row[j] is the distance of a[:i] and b[:j].
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j]+change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
