package composite

import (
	"reflect"
	"testing"

	"google.golang.org/grpc/metadata"
)

func TestParseConfigRejectsMetadata(t *testing.T) {
	const (
		reserved   = "must have a key that gRPC does not reserve for itself"
		characters = `must have a key of lower-case letters, digits, "-", "_" and "."`
		printable  = `must be printable ASCII, unless the key ends with "-bin"`
		object     = "must be an object whose values are strings, with each key once"
	)
	for _, tc := range []struct{ name, metadata, want string }{
		{"a list", `["x"]`, `: ` + object},
		{"a string", `"x"`, `: ` + object},
		{"a number as value", `{"x":1}`, `: ` + object},
		{"null as value", `{"x":null}`, `: ` + object},
		{"a list as value", `{"x":["1"]}`, `: ` + object},
		{"a key twice", `{"x":"1","x":"2"}`, `: ` + object},
		{"a value that is not Unicode", `{"x":"\udc00"}`, `: ` + object},

		{"no key", `{"":"1"}`, `[""]: must have a key that is not empty`},
		{"upper case", `{"X-Tag":"1"}`, `["X-Tag"]: ` + characters},
		{"a space in the key", `{"x tag":"1"}`, `["x tag"]: ` + characters},
		{"a letter beyond ASCII in the key", `{"\u00e9":"1"}`, `["é"]: ` + characters},
		{"a line break in the key", `{"x\n":"1"}`, `["x\n"]: ` + characters},
		{"a colon in the key", `{"x:y":"1"}`, `["x:y"]: ` + characters},

		{"a colon first", `{":authority":"a"}`, `[":authority"]: ` + reserved},
		{"a colon alone", `{":":"a"}`, `[":"]: ` + reserved},
		{"gRPC's own", `{"grpc-timeout":"1S"}`, `["grpc-timeout"]: ` + reserved},
		{"the prefix of gRPC's own", `{"grpc-":"x"}`, `["grpc-"]: ` + reserved},
		{"gRPC's own in binary", `{"grpc-tags-bin":"x"}`, `["grpc-tags-bin"]: ` + reserved},
		{"connection", `{"connection":"close"}`, `["connection"]: ` + reserved},
		{"content-length", `{"content-length":"1"}`, `["content-length"]: ` + reserved},
		{"content-type", `{"content-type":"x"}`, `["content-type"]: ` + reserved},
		{"host", `{"host":"x"}`, `["host"]: ` + reserved},
		{"keep-alive", `{"keep-alive":"x"}`, `["keep-alive"]: ` + reserved},
		{"proxy-connection", `{"proxy-connection":"x"}`, `["proxy-connection"]: ` + reserved},
		{"te", `{"te":"trailers"}`, `["te"]: ` + reserved},
		{"transfer-encoding", `{"transfer-encoding":"x"}`, `["transfer-encoding"]: ` + reserved},
		{"upgrade", `{"upgrade":"x"}`, `["upgrade"]: ` + reserved},
		{"user-agent", `{"user-agent":"x"}`, `["user-agent"]: ` + reserved},

		{"a line break in the value", `{"x":"1\r\ny: 2"}`, `["x"]: ` + printable},
		{"a tab in the value", `{"x":"\t"}`, `["x"]: ` + printable},
		{"a letter beyond ASCII in the value", `{"x":"\u00e9"}`, `["x"]: ` + printable},
		{"DEL in the value", `{"x":"\u007f"}`, `["x"]: ` + printable},
		{"a value of a key that only looks binary", `{"bin":"\u0000"}`, `["bin"]: ` + printable},
		{"the first of several in order", `{"z":"\n","b":"\n","c":"1"}`, `["b"]: ` + printable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			input := `{"clusters":[{"name":"a"},{"name":"b","metadata":` + tc.metadata + `}]}`
			want := "composite: clusters[1].metadata" + tc.want
			cfg, err := parse(input)
			if err == nil {
				t.Fatalf("ParseConfig(%s) = %+v: want the error %s", input, cfg, want)
			}
			if err.Error() != want {
				t.Errorf("ParseConfig(%s):\ngot  %v\nwant %s", input, err, want)
			}
		})
	}
}

func TestParseConfigAcceptsMetadata(t *testing.T) {
	for _, tc := range []struct {
		name, metadata string
		want           metadata.MD
	}{
		{"null", `null`, nil},
		{"empty", `{}`, nil},
		{"one", `{"x-tag":"1"}`, metadata.Pairs("x-tag", "1")},
		{"all that a key may have", `{"az-09_.":"1"}`, metadata.Pairs("az-09_.", "1")},
		{"all that a value may have", `{"x":" !~\\\""}`, metadata.Pairs("x", ` !~\"`)},
		{"an empty value", `{"x":""}`, metadata.Pairs("x", "")},
		{"binary", `{"x-bin":"\u0000\n\u00e9"}`, metadata.Pairs("x-bin", "\x00\né")},
		{"keys that look reserved", `{"grpc":"1","te-x":"2","x-grpc-":"3"}`, metadata.Pairs("grpc", "1", "te-x", "2", "x-grpc-", "3")},
		{"several", `{"b":"1","a":"2"}`, metadata.Pairs("a", "2", "b", "1")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := parse(`{"clusters":[{"name":"a","metadata":` + tc.metadata + `}]}`)
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.clusters[0].metadata; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("metadata %v: want %v", got, tc.want)
			}
		})
	}
}

// TestParseConfigRejectsMetadataOfARepeatedEntry would otherwise have it be
// ignored.
func TestParseConfigRejectsMetadataOfARepeatedEntry(t *testing.T) {
	_, err := parse(`{"clusters":[{"name":"a"},{"name":"a","metadata":{"x":"1"}}]}`)
	const want = `composite: clusters[1].metadata: must be left out, since clusters[0] defines "a" and an entry that repeats it carries only name and attempts`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
