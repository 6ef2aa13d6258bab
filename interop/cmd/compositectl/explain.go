package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/explain"
)

var explainCommand = command{
	name: "explain",
	usage: `compositectl explain [flags] FILE

Shows which clusters the attempts of an RPC go to, with the back-offs between them, and
the longest time that an RPC can take, for each entry of methodConfig. FILE may be a target
with its clusters in it, such as "composite:///a:443,b:443".

`,
	limit:   configLimit,
	targets: true,
	flags: func(set *flag.FlagSet) runner {
		known(set)
		return func(input source, out, errs io.Writer) error {
			if input.wrong != nil {
				return input.wrong
			}
			text, err := explain.Text(input.text)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprint(out, text)
			if findings := composite.Lint(input.text); len(findings) > 0 {
				_, _ = fmt.Fprintf(errs, "\ncompositectl lint says of it:\n")
				printFindings(errs, input.name, findings)
			}
			return nil
		}
	},
}
