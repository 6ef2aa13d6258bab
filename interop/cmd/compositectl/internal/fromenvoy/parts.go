package fromenvoy

import "strings"

// maxParts is how many routes of a virtual host are kept that a methodConfig cannot
// name: each is compared with every route after it.
const maxParts = 1000

// part is a route whose requests a methodConfig cannot name: those with some header, or
// whose methods begin with some text.
type part struct {
	begin string // what the paths of its requests begin with
	fold  bool   // in upper or lower case
	some  bool   // it does not take all of those
	match string // as a note has it
	line  int
	goal  string // as in claim
}

// pathEnd follows a path that is known in whole, so that no other begins with it: there
// is no line's end in a path.
const pathEnd = "\n"

// begin returns what the paths of methods begin with.
func (n methodName) begin() string {
	switch {
	case n.Method != "":
		return "/" + n.Service + "/" + n.Method + pathEnd
	case n.Service != "":
		return "/" + n.Service + "/"
	default:
		return "/"
	}
}

// partOf reads a match, and returns false if no gRPC request has what it asks for.
func partOf(match *node) (part, bool) {
	p := part{begin: "/", some: true, fold: match.text("case_sensitive") == "false"}
	var asked []string
	more := false // than a path is asked for
	for _, f := range match.all() {
		value := f.value.text()
		switch f.name {
		case "grpc", "case_sensitive":
			continue
		case "connect_matcher":
			return part{}, false
		case "prefix":
			p.begin, p.some = value, false
		case "path":
			p.begin, p.some = value+pathEnd, false
		case "path_separated_prefix":
			p.begin, p.some = separated(value), false
		case "safe_regex":
			value = f.value.text("regex")
		case "headers", "query_parameters":
			value, more = namesOf(f.value), true
		default:
			more = true
		}
		asked = append(asked, strings.TrimSpace(f.name+" "+value))
	}
	p.match, p.some = shown(strings.Join(asked, " and ")), p.some || more
	p.begin = p.folded(p.begin)
	return p, len(asked) > 0 && ofMethods(p.begin)
}

// separated returns what the paths begin with that a path_separated_prefix takes.
func separated(prefix string) string {
	if strings.Count(prefix, "/") > 1 {
		return prefix + pathEnd // of a method
	}
	return prefix + "/"
}

// namesOf lists the names of headers.
func namesOf(headers *node) string {
	var names []string
	for _, h := range headers.list() {
		names = append(names, h.text("name"))
	}
	return strings.Join(names, ", ")
}

// ofMethods tells whether paths of methods, /package.Service/Method, may begin so.
func ofMethods(begin string) bool {
	slashes := strings.Count(begin, "/")
	if strings.HasSuffix(begin, pathEnd) {
		return begin[0] == '/' && slashes == 2
	}
	return begin == "" || begin[0] == '/' && slashes <= 2
}

// folded returns a path as it is compared.
func (p *part) folded(path string) string {
	if p.fold {
		return strings.ToLower(path)
	}
	return path
}

// meets tells whether it may take a request whose path begins so.
func (p *part) meets(begin string) bool {
	return strings.HasPrefix(p.begin, p.folded(begin)) || strings.HasPrefix(p.folded(begin), p.begin)
}

// covers tells whether it takes each request whose path begins so.
func (p *part) covers(begin string) bool {
	return !p.some && strings.HasPrefix(p.folded(begin), p.begin)
}

// within returns the name that stands for the fewest methods, with all of the part's
// among them.
func (p *part) within() methodName {
	service, method, ok := strings.Cut(strings.TrimPrefix(p.begin, "/"), "/")
	if !ok || p.fold {
		return methodName{}
	}
	if method, ok = strings.CutSuffix(method, pathEnd); !ok {
		return methodName{Service: service}
	}
	return methodName{service, method}
}

// addPart adds a route that a methodConfig cannot name, unless routes before it take all
// that it would. It returns false if there are too many.
func (c *claims) addPart(match *node, line int, goal string) bool {
	p, ok := partOf(match)
	if !ok || goal == "" && p.some {
		return true
	}
	if _, covered := c.covering(p.within()); covered {
		return true
	}
	for i := range c.parts {
		if earlier := &c.parts[i]; earlier.covers(p.begin) && (earlier.fold || !p.fold) {
			return true
		}
	}
	if len(c.parts) == maxParts {
		return false
	}
	p.line, p.goal = line, goal
	c.parts = append(c.parts, p)
	return true
}
