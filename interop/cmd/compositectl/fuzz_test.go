package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/explain"
)

// FuzzExplain checks that a service config is either explained, in valid UTF-8, or
// refused with a reason, and that nothing is explained that gRPC-Go refuses, nor
// called refused what it accepts.
func FuzzExplain(f *testing.F) {
	for _, config := range []string{good, errored, warned, custom} {
		f.Add(config)
	}
	f.Add(`{"loadBalancingConfig":[{"composite":{"overflow":"ROUND_ROBIN","clusters":[{"name":"a","attempts":63},{"name":"a","attempts":1}]}}],"methodConfig":[{"name":[{}],"timeout":"-1s","retryPolicy":{"maxAttempts":100,"initialBackoff":"1e3s","maxBackoff":"315576000000s","backoffMultiplier":1e300,"retryableStatusCodes":[0,16]}}]}`)
	f.Fuzz(func(t *testing.T, config string) {
		text, err := explain.Text(config)
		if (err == nil) == (text == "") {
			t.Errorf("the text is %q and the error %v", text, err)
		}
		if !utf8.ValidString(text) {
			t.Errorf("%q is not valid UTF-8", text)
		}
		refused := err != nil && strings.HasPrefix(err.Error(), "gRPC-Go refuses")
		if err != nil && !refused {
			return
		}
		cc, err := grpc.NewClient("passthrough:///", grpc.WithDefaultServiceConfig(config), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if refused != (err != nil) {
			t.Errorf("refused is %v, and gRPC-Go says: %v", refused, err)
		}
		if err == nil {
			_ = cc.Close()
		}
	})
}

// FuzzLint checks that the command prints something for every input, and ends with 0
// or 1.
func FuzzLint(f *testing.F) {
	for _, config := range []string{good, errored, warned, custom, "", "{"} {
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config string) {
		got := runWith(config, "lint", "-")
		if got.code != 0 && got.code != exitFound || got.out == "" || got.errs != "" {
			t.Errorf("it ends with %d, prints %q and says %q", got.code, got.out, got.errs)
		}
	})
}
