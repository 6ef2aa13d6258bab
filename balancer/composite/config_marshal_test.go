package composite

import (
	"encoding/json"
	"testing"
)

// TestConfigIsWrittenAsItWas marshals a config: gRPC's xDS policies write the
// configs of the policies below them, and parse them again.
func TestConfigIsWrittenAsItWas(t *testing.T) {
	t.Parallel()
	const text = `{"clusters":[{"name":"a","target":"localhost:1","attempts":2,"attemptTimeout":"1s","childPolicy":[{"pick_first":{"shuffleAddressList":true}}]},{"name":"b"}],"overflow":"ROUND_ROBIN"}`
	cfg, _, err := parseConfig(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(map[string]any{"config": cfg})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"config":` + text + `}`; string(got) != want {
		t.Errorf("written as %s: want %s", got, want)
	}
}
