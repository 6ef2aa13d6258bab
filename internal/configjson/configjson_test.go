package configjson_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

func TestUnmarshalErrors(t *testing.T) {
	for _, tc := range []struct{ name, input, want string }{
		{"nothing", ``, `must be valid JSON: byte 0: unexpected end of JSON input`},
		{"cut off", `{"clusters":[`, `must be valid JSON: byte 13: unexpected end of JSON input`},
		{"a list", `[1]`, `[1]: must be an object`},
		{"a string", ` "x" `, `"x": must be an object`},
		{"null", `null`, `null: must be an object`},
		{"a number that no double holds", `1e400`, `1e400: must be an object`},
		{"an object for a list", `{"clusters":{}}`, `clusters: {}: must be a list`},
		{"a string in a list of objects", `{"clusters":[{},"x"]}`, `clusters[1]: "x": must be an object`},
		{"null in a list of objects", `{"clusters":[{},null]}`, `clusters[1]: null: must be an object`},
		{"a list in a list of objects", `{"clusters":[ [ {} ] ]}`, `clusters[0]: [{}]: must be an object`},
		{"a list in a list of policies", `{"clusters":[{"childPolicy":[{},[{}]]}]}`, `clusters[0].childPolicy[1]: [{}]: must be an object`},
		{"null in a list of policies", `{"clusters":[{"childPolicy":[null]}]}`, `clusters[0].childPolicy[0]: null: must be an object`},
		{"a path keeps the spelling of the config", `{"clusters":[{"child_policy":3}]}`, `clusters[0].child_policy: 3: must be a list`},
		{"a value of several lines", "{\"clusters\": {\n\t\"a\": [ 1 ]\n}}", `clusters: {"a":[1]}: must be a list`},
		{"a field twice", `{"noHost":"FAIL_REQUEST","noHost":"FAIL_REQUEST"}`, `noHost: must be given once`},
		{"a field twice, once as null", `{"noHost":null,"noHost":"FAIL_REQUEST"}`, `noHost: must be given once`},
		{"a field twice, once escaped", `{"noHost":1,"no\u0048ost":1}`, `noHost: must be given once`},
		{"a field under both names", `{"clusters":[{},{"connect_timeout":"1s","connectTimeout":"1s"}]}`, `clusters[1].connectTimeout: must be given once, and "connect_timeout" is the same field`},
		{"a field under both names, the other way", `{"noHost":1,"no_host":1}`, `no_host: must be given once, and "noHost" is the same field`},
		{"a key of a policy twice", `{"clusters":[{"childPolicy":[{"p":{"a":1,"a":2}}]}]}`, `clusters[0].childPolicy[0]: {"p":{"a":1,"a":2}}: must have each key once, text that is valid Unicode, and numbers in the range of a double`},
		{"a number in a policy that no double holds", `{"clusters":[{"childPolicy":[{"p":1e400}]}]}`, `clusters[0].childPolicy[0]: {"p":1e400}: must have each key once, text that is valid Unicode, and numbers in the range of a double`},
		{"half a surrogate pair", `{"clusters":[{"name":"\ud800"}]}`, `clusters[0].name: "\ud800": must be valid Unicode`},
		{"bytes that are not UTF-8", "{\"clusters\":[{\"name\":\"a\xff\"}]}", "clusters[0].name: \"a\uFFFD\": must be valid Unicode"},
		{"a huge string", `{"overflow":"` + strings.Repeat("x", 1000) + `"}`, `overflow: "` + strings.Repeat("x", 79) + `...: must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
		{"a huge string of wide runes", `{"overflow":"` + strings.Repeat("世", 1000) + `"}`, `overflow: "` + strings.Repeat("世", 26) + `...: must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
		{"a huge object", `{"clusters":{"` + strings.Repeat("x", 1000) + `":1}}`, `clusters: {"` + strings.Repeat("x", 78) + `...: must be a list`},
		{"nested as deep as the parser of JSON goes", strings.Repeat(`[`, 10_000) + strings.Repeat(`]`, 10_000), strings.Repeat(`[`, 80) + `...: must be an object`},
		{"nested deeper", strings.Repeat(`[`, 10_001) + strings.Repeat(`]`, 10_001), `must be valid JSON: byte 10001: invalid character '[' exceeded max depth`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			unknown, err := configjson.Unmarshal([]byte(tc.input), new(pb.LoadBalancingConfig))
			if err == nil || err.Error() != tc.want || unknown != nil {
				t.Errorf("Unmarshal(%.200s):\ngot  %v, unknown %q\nwant %s", tc.input, err, unknown, tc.want)
			}
			var field *configjson.Error
			if !errors.As(err, &field) {
				t.Errorf("the error is a %T: want an *Error", err)
			}
		})
	}
}

func TestUnmarshal(t *testing.T) {
	deep := strings.Repeat(`{"x":[`, 4000) + strings.Repeat(`]}`, 4000)
	long := strings.Repeat("世", 1000)
	for _, tc := range []struct {
		name, input string
		want        string // as protojson reads it
		unknown     []string
	}{
		{"an empty object", `{}`, `{}`, nil},
		{"space around values", " { \"clusters\" : [ { \"name\" : \"a\" } ] , \"noHost\" : null } ", `{"clusters":[{"name":"a"}]}`, nil},
		{"null is the default", `{"clusters":null,"overflow":null,"skipClustersWithoutHosts":null}`, `{}`, nil},
		{"null is the default in a list's items", `{"clusters":[{"name":"a","childPolicy":null,"connectTimeout":null,"attempts":null}]}`, `{"clusters":[{"name":"a"}]}`, nil},
		{"false is not the default", `{"skipClustersWithoutHosts":false}`, `{"skipClustersWithoutHosts":false}`, nil},
		{"names in snake case", `{"skip_clusters_without_hosts":true,"clusters":[{"child_policy":[{"p":{}}],"connect_timeout":"2s"}]}`, `{"skipClustersWithoutHosts":true,"clusters":[{"childPolicy":[{"p":{}}],"connectTimeout":"2s"}]}`, nil},
		{"an enum by number", `{"noHost":2}`, `{"noHost":"FAIL_REQUEST"}`, nil},
		{"whole numbers of all forms", `{"clusters":[{"attempts":"3"},{"attempts":4.0},{"attempts":5e0}]}`, `{"clusters":[{"attempts":3},{"attempts":4},{"attempts":5}]}`, nil},
		{"escapes", `{"clusters":[{"\u006eame":"\ud83d\ude00\n\""}]}`, `{"clusters":[{"name":"😀\n\""}]}`, nil},
		{"unknown fields", `{"a":1,"clusters":[{},{"name":"b","c":{"d":null},"e":[]}],"noHost":1,"f":"x"}`, `{"clusters":[{},{"name":"b"}],"noHost":1}`, []string{"a", "clusters[1].c", "clusters[1].e", "f"}},
		{"unknown fields that are null", `{"a":null}`, `{}`, []string{"a"}},
		{"an unknown field twice", `{"a":1,"a":2}`, `{}`, []string{"a", "a"}},
		{"a name in the wrong case is unknown", `{"Clusters":[],"NOHOST":1}`, `{}`, []string{"Clusters", "NOHOST"}},
		{"fields of a policy are the policy's", `{"clusters":[{"childPolicy":[{"p":{"x":1}}]}]}`, `{"clusters":[{"childPolicy":[{"p":{"x":1}}]}]}`, nil},
		{"keys that need quotes", `{"a b":1,"":1,"a.b":1,"x\ny":1,"` + long + `":1}`, `{}`, []string{`"a b"`, `""`, `"a.b"`, `"x\ny"`, `"` + strings.Repeat("世", 26) + `..."`}},
		{"a number in an unknown field that no double holds", `{"a":1e400}`, `{}`, []string{"a"}},
		{"an unknown field that is nested deeply", `{"clusters":[{"a":` + deep + `}]}`, `{"clusters":[{}]}`, []string{"clusters[0].a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, want := new(pb.LoadBalancingConfig), new(pb.LoadBalancingConfig)
			if err := protojson.Unmarshal([]byte(tc.want), want); err != nil {
				t.Fatal(err)
			}
			unknown, err := configjson.Unmarshal([]byte(tc.input), got)
			if err != nil {
				t.Fatalf("Unmarshal(%.200s): %v", tc.input, err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("Unmarshal(%.200s):\ngot  %v\nwant %v", tc.input, got, want)
			}
			if !reflect.DeepEqual(unknown, tc.unknown) {
				t.Errorf("unknown fields %q: want %q", unknown, tc.unknown)
			}
		})
	}
}

// TestUnmarshalOtherKinds reads fields of kinds that the policy's config does not
// have: lists of leaves, numbers with a sign, and messages that are not in a list.
func TestUnmarshalOtherKinds(t *testing.T) {
	for _, tc := range []struct {
		name, input string
		message     proto.Message
		want        string // what the message holds afterwards, or the error
	}{
		{"enums in a list", `{"targets":["TARGET_TYPE_FILE",3]}`, new(descriptorpb.FieldOptions), `targets:TARGET_TYPE_FILE targets:TARGET_TYPE_MESSAGE`},
		{"an unknown enum in a list", `{"targets":["TARGET_TYPE_FILE",77]}`, new(descriptorpb.FieldOptions), `targets[1]: 77: must be one of TARGET_TYPE_FILE, TARGET_TYPE_EXTENSION_RANGE, TARGET_TYPE_MESSAGE, TARGET_TYPE_FIELD, TARGET_TYPE_ONEOF, TARGET_TYPE_ENUM, TARGET_TYPE_ENUM_ENTRY, TARGET_TYPE_SERVICE, TARGET_TYPE_METHOD`},
		{"strings in a list", `{"dependency":["a","b"]}`, new(descriptorpb.FileDescriptorProto), `dependency:"a" dependency:"b"`},
		{"null in a list", `{"dependency":["a",null]}`, new(descriptorpb.FileDescriptorProto), `dependency[1]: null: must be a string`},
		{"a number with a sign", `{"publicDependency":[-1]}`, new(descriptorpb.FileDescriptorProto), `public_dependency:-1`},
		{"a fraction", `{"publicDependency":[0,1.5]}`, new(descriptorpb.FileDescriptorProto), `publicDependency[1]: 1.5: must be a valid int32`},
		{"a message", `{"responseStatus":{"message":"x"}}`, new(testpb.SimpleRequest), `response_status:{message:"x"}`},
		{"a wrong field of a message", `{"responseStatus":{"message":1}}`, new(testpb.SimpleRequest), `responseStatus.message: 1: must be a string`},
		{"a list for a message", `{"responseStatus":[]}`, new(testpb.SimpleRequest), `responseStatus: []: must be an object`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got string
			if _, err := configjson.Unmarshal([]byte(tc.input), tc.message); err != nil {
				got = err.Error()
			} else {
				// The text form has one or two spaces, so that nobody relies on it.
				got = strings.Join(strings.Fields(fmt.Sprint(tc.message)), " ")
			}
			if got != tc.want {
				t.Errorf("Unmarshal(%s):\ngot  %s\nwant %s", tc.input, got, tc.want)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		name string
		err  configjson.Error
		want string
	}{
		{"all parts", configjson.Error{Path: "a.b", Value: "1", Want: "must be 2", Err: cause}, "a.b: 1: must be 2: cause"},
		{"no path", configjson.Error{Value: "1", Want: "must be 2"}, "1: must be 2"},
		{"no value", configjson.Error{Path: "a.b", Want: "must be 2"}, "a.b: must be 2"},
		{"only a cause", configjson.Error{Path: "a.b", Err: cause}, "a.b: cause"},
		{"a value as long as is shown", configjson.Error{Value: strings.Repeat("x", 80)}, strings.Repeat("x", 80)},
		{"a value too long to be shown", configjson.Error{Value: strings.Repeat("x", 81)}, strings.Repeat("x", 80) + "..."},
		{"a cut before a rune of two bytes", configjson.Error{Value: strings.Repeat("x", 79) + "éé"}, strings.Repeat("x", 79) + "..."},
		{"a cut after a rune of two bytes", configjson.Error{Value: strings.Repeat("x", 78) + "éé"}, strings.Repeat("x", 78) + "é..."},
		{"a cut before a rune of four bytes", configjson.Error{Value: strings.Repeat("x", 77) + "😀"}, strings.Repeat("x", 77) + "..."},
		{"bytes that are not UTF-8", configjson.Error{Value: "a\xffb"}, "a\uFFFDb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if got := tc.err.Error(); !utf8.ValidString(got) {
				t.Errorf("%q: must be valid UTF-8", got)
			}
			if got := errors.Is(&tc.err, cause); got != (tc.err.Err != nil) {
				t.Errorf("errors.Is finds the cause: %v", got)
			}
		})
	}
}
