package composite_test

import "github.com/grpc-composite/grpc-composite/balancer/composite"

// warnings are all warnings and errors that this package has logged since the tests
// began.
var warnings = loggedWarnings{}

type loggedWarnings struct{}

// with returns the lines that contain text.
func (loggedWarnings) with(text string) []string { return composite.Warnings.With(text) }
