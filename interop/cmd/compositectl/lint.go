package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// configLimit is how large a service config may be, in bytes.
const configLimit = 1 << 20

var lintCommand = command{
	name: "lint",
	usage: `compositectl lint [flags] FILE

Finds what gRPC-Go refuses or ignores in a service config, and what it accepts although
it cannot work. FILE may be a target with its clusters in it, such as
"composite:///a:443,b:443": then it is about the service config that the target makes.

It ends with 1 if there is an error or the findings cannot be written, with 0 if there
are warnings alone or nothing, and with 2 if FILE cannot be read. Whether a program imports the policies of gRPC-Go that
the config names is not looked at: composite.Lint in a test of the program does that.

`,
	limit:   configLimit,
	targets: true,
	flags: func(set *flag.FlagSet) runner {
		known(set)
		asJSON := set.Bool("json", false, "print the findings as a JSON list of objects with severity, path, problem and remedy")
		return func(input source, out, _ io.Writer) error {
			findings := lint(input)
			if *asJSON {
				printJSON(out, findings)
			} else {
				printFindings(out, input.name, findings)
			}
			return failed(findings)
		}
	},
}

// lint returns what is wrong with a service config, or with the target that should
// make one.
func lint(input source) []composite.Finding {
	if input.wrong != nil {
		return []composite.Finding{{
			Severity: composite.Error, Path: "the target", Problem: input.wrong.Error(),
			Remedy: "correct it: a channel with this target has no service config",
		}}
	}
	return composite.Lint(input.text)
}

// failed returns errFound if a finding is an error.
func failed(findings []composite.Finding) error {
	for _, f := range findings {
		if f.Severity == composite.Error {
			return errFound
		}
	}
	return nil
}

func printFindings(w io.Writer, name string, findings []composite.Finding) {
	if len(findings) == 0 {
		_, _ = fmt.Fprintf(w, "%s: nothing found\n", name)
	}
	for _, f := range findings {
		path := f.Path
		if path == "" {
			path = "the service config"
		}
		_, _ = fmt.Fprintf(w, "%s: %s: %s\n    %s\n    -> %s\n", name, f.Severity, path, f.Problem, f.Remedy)
	}
}

func printJSON(w io.Writer, findings []composite.Finding) {
	if findings == nil {
		findings = []composite.Finding{} // a list, and not null
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(findings)
}
