package clusterattr_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/resolver/clusterattr"
)

func Example() {
	e := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "192.0.2.1:443"}}}
	tagged := clusterattr.Set(e, "primary")
	fmt.Printf("%q %q\n", clusterattr.Get(tagged), clusterattr.Get(e))
	// Output: "primary" ""
}

func TestSetKeepsOtherAttributesAndTheOriginal(t *testing.T) {
	t.Parallel()
	type other struct{}
	e := resolver.Endpoint{Attributes: attributes.New(other{}, "kept")}
	first := clusterattr.Set(e, "a")
	second := clusterattr.Set(first, "b")
	for i, tc := range []struct {
		e    resolver.Endpoint
		want string
	}{{e, ""}, {first, "a"}, {second, "b"}} {
		if got := clusterattr.Get(tc.e); got != tc.want {
			t.Errorf("%d: cluster %q: want %q", i, got, tc.want)
		}
		if got := tc.e.Attributes.Value(other{}); got != "kept" {
			t.Errorf("%d: the other attribute is %v: want it kept", i, got)
		}
	}
}
