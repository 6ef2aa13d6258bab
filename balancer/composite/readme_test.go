package composite_test

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// between returns what is between two marks.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, begin)
	if !ok {
		t.Fatalf("no %q", begin)
	}
	inside, _, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("no %q after %q", end, begin)
	}
	return strings.TrimSpace(inside)
}

func TestReadmeShowsTheCompiledExamples(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "../../README.md")
	for _, name := range []string{"balancer/composite/example_test.go", "balancer/composite/example_credentials_test.go", "examples/otel/client.go"} {
		code := between(t, readFile(t, "../../"+name), "// begin.\n", "// end.\n")
		shown := between(t, readme, "<!-- example: "+name+" -->\n```go\n", "\n```\n")
		if code != shown {
			t.Errorf("README.md shows\n%s\nwhile the example is\n%s", shown, code)
		}
	}
}

func TestExamplesDial(t *testing.T) {
	t.Parallel()
	plain := insecure.NewCredentials()
	first, err := Dial(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	second, err := DialWithCredentials(plain, plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
}

// TestReadmeHasEachField keeps the table of the config complete.
func TestReadmeHasEachField(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "../../README.md")
	check := func(prefix string, m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			name := prefix + field.JSONName()
			if field.IsList() {
				name += "[]"
			}
			if !strings.Contains(readme, "| `"+name+"` |") {
				t.Errorf("README.md does not explain the field %s", name)
			}
		}
	}
	check("", (&pb.LoadBalancingConfig{}).ProtoReflect().Descriptor())
	check("clusters[].", (&pb.Cluster{}).ProtoReflect().Descriptor())
}
