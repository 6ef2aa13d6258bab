package svcconfig

// Deeper tells whether a text has more than so many objects and lists in one
// another, if it is JSON. To read such a text can take time out of proportion to its
// length, since each policy reads the whole config of those inside it.
func Deeper(text string, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
