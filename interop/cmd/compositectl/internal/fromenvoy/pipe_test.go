package fromenvoy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/fromenvoy"
)

// TestConvertPipe checks that of the target for a pipe the policy and gRPC's resolver
// make the path that Envoy has.
func TestConvertPipe(t *testing.T) {
	for _, tc := range []struct{ path, want string }{
		{"/run/service.sock", "unix:/run/service.sock"},
		{"/tmp/a#1?x%20y", "unix:/tmp/a%231%3Fx%2520y"},
		{"/tmp/a b:c@é", "unix:/tmp/a%20b:c@%C3%A9"},
		{"//tmp/a", "unix:////tmp/a"},
		{"run/a%20b c", "unix:run/a%20b c"},
		{"@abstract/a%zz", "unix:@abstract/a%zz"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			text, _ := convertPipe(t, tc.path)
			if text != tc.want {
				t.Errorf("the target is %q, want %q", text, tc.want)
			}
			target, err := clustertarget.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			var got addresses
			if _, err := target.Builder.Build(target.Parsed, &got, resolver.BuildOptions{}); err != nil {
				t.Fatal(err)
			}
			if len(got.list) != 1 || got.list[0].Addr != tc.path {
				t.Errorf("the resolver has %v, want %q", got.list, tc.path)
			}
		})
	}
}

// TestConvertPipeUnknown has pipes that no target stands for.
func TestConvertPipeUnknown(t *testing.T) {
	for _, path := range []string{"a#b", "@a?b"} {
		target, notes := convertPipe(t, path)
		want := fmt.Sprintf(`cluster "a": its pipe %s is not an absolute path, and a target cannot have ? and # in any other: its target here is a placeholder; set it`, path)
		if target != "dns:///set-this-target.invalid:443" || !strings.Contains(notes, want) {
			t.Errorf("%q has the target %q, and the notes\n%swant\n%s", path, target, notes, want)
		}
	}
}

// convertPipe returns the target of a cluster with a pipe, and the notes.
func convertPipe(t *testing.T, path string) (target, notes string) {
	t.Helper()
	a := fmt.Sprintf("load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: %q}}}}]}]}", path)
	got, err := fromenvoy.Convert([]byte(config([]string{all("retry_on: unavailable" + someBackoff)}, a, "")), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(partOf(t, got.ServiceConfig, clusterA+".target")), &target); err != nil {
		t.Fatal(err)
	}
	for _, n := range got.Notes {
		notes += n.Text + "\n"
	}
	return target, notes
}

// addresses is a channel that keeps what its resolver delivers.
type addresses struct {
	resolver.ClientConn

	list []resolver.Address
}

func (a *addresses) UpdateState(state resolver.State) error {
	a.list = state.Addresses
	return nil
}
