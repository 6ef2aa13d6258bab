package svcconfig

import "strings"

// maxWrong is how many letters a name may be away from the one that was meant.
const maxWrong = 2

// maxName is the longest name that is compared with others, in bytes.
const maxName = 64

// Nearest returns the name that was probably meant by one that does not exist, or
// "". Underscores and capitals do not count.
func Nearest(name string, known []string) string {
	if len(name) > maxName {
		return ""
	}
	nearest, least := "", maxWrong+1
	for _, k := range known {
		// A short name is near to everything.
		if d := distance(plain(name), plain(k)); d < least && d*3 <= len(k) {
			nearest, least = k, d
		}
	}
	return nearest
}

func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

// distance is how many bytes have to be put in, taken out or changed to make b of
// a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
