package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/fromenvoy"
)

// envoyLimit is how large an Envoy's configuration may be, in bytes.
const envoyLimit = 16 << 20

var fromEnvoyCommand = command{
	name: "from-envoy",
	usage: `compositectl from-envoy [flags] FILE

Makes a service config of an Envoy's configuration that has a composite cluster
(envoy.clusters.composite) and a route to it: a bootstrap, cluster and route
resources, or the answer of the admin port's /config_dump, in YAML or JSON. The service
config is printed. What is not carried over, or is not quite the same, is said on the
standard error, line by line, and so is what lint finds in the result, which may be an
error if there is no route to take retries from. It ends with 0 all the same, with 1 if
there is no service config to print or not all can be written, and with 2 if FILE cannot
be read.

`,
	limit: envoyLimit,
	flags: func(set *flag.FlagSet) runner {
		name := set.String("cluster", "", "the `NAME` of the composite cluster, if there are several")
		return func(input source, out, errs io.Writer) error {
			result, err := fromenvoy.Convert([]byte(input.text), *name)
			if err != nil {
				return err
			}
			for _, note := range result.Notes {
				_, _ = fmt.Fprintf(errs, "%s:%d: %s\n", input.name, note.Line, note.Text)
			}
			if findings := composite.Lint(result.ServiceConfig); len(findings) > 0 {
				_, _ = fmt.Fprint(errs, "\ncompositectl lint says of the result:\n")
				printFindings(errs, "result", findings)
			}
			_, _ = fmt.Fprint(out, result.ServiceConfig)
			return nil
		}
	},
}
