package svcconfig

// Problems is what gRPC-Go makes nothing of.
type Problems struct {
	// Refused are values for which gRPC-Go refuses the whole service config.
	Refused []Problem
	// Unknown are fields that gRPC-Go ignores.
	Unknown []Unknown
	// Repeated are the paths of fields that are given more than once, in one
	// object. JSON does not say which one counts.
	Repeated []string
}

// Problem is something wrong with the value at a path.
type Problem struct{ Path, Text string }

// Unknown is a field that its object does not have.
type Unknown struct {
	Path string
	Name string
	// Meant is the field that the name looks like, or "".
	Meant string
}

func (p *Problems) refuse(path, text string) {
	p.Refused = append(p.Refused, Problem{Path: path, Text: text})
}
