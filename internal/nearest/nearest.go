// Package nearest finds the most similar name for a mistyped word.
package nearest

import "strings"

// maxWord limits the length of a word, because longer text is not a mistyped name.
const maxWord = 40

// Of returns the most similar name, or "" if no name is similar. It ignores the letter case.
func Of(word string, names []string) (best string) {
	if len(word) > maxWord {
		return ""
	}
	least := 1 + min(2, len(word)/2)
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns the number of insertions, deletions, replacements and swaps of letters that change a into b.
func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
