package composite_test

import (
	"encoding/json"
	"testing"
)

// TestModelFindings are the steps, as small as they got, by which the model test
// found the policy in the wrong.
func TestModelFindings(t *testing.T) {
	for _, tc := range []struct {
		name  string
		tiers []string
		steps string
	}{
		{
			// A refused stream is no attempt that failed: the server never saw it,
			// and what repeats it belongs to the same cluster.
			name: "a transparent retry stays, whatever the cooldown", tiers: []string{"r", "a"},
			steps: `[
				{"Config": {"Entries": [{"Name": "r"}, {"Name": "a"}], "Settings": {"r": {"Failures": 1}, "a": {}}}},
				{"RPC": {"Kind": "unary", "Replies": {"r": [{"Raw": "refuse"}, {}]}}},
				{"RPC": {"Kind": "unary"}}
			]`,
		},
		{
			// The same, when two of them would make a rest.
			name: "a refused stream and its repetition count once", tiers: []string{"r", "a"},
			steps: `[
				{"Config": {"Entries": [{"Name": "r"}, {"Name": "a"}], "Settings": {"r": {"Failures": 2}, "a": {}}}},
				{"RPC": {"Kind": "unary", "Replies": {"r": [{"Raw": "refuse"}]}}},
				{"RPC": {"Kind": "unary"}}
			]`,
		},
		{
			// The slots that one policy inside another used are no slots of the next.
			name: "each list has a progression of its own", tiers: []string{"n/x", "m/y"},
			steps: `[
				{"Config": {
					"Entries": [{"Name": "n"}, {"Name": "m"}],
					"Settings": {
						"n": {"Inner": {"Entries": [{"Name": "x"}], "Settings": {"x": {}}, "NextCluster": true}},
						"m": {"Inner": {"Entries": [{"Name": "y"}], "Settings": {"y": {}}, "NextCluster": true}}
					},
					"MaxAttempts": 2, "Retryable": ["UNAVAILABLE"]
				}},
				{"RPC": {"Kind": "unary", "Replies": {"n/x": [{"Code": "UNAVAILABLE"}]}}}
			]`,
		},
		{
			// It was a panic.
			name: "an attemptTimeout inside a cluster that has other settings", tiers: []string{"n/x"},
			steps: `[
				{"Config": {
					"Entries": [{"Name": "n"}],
					"Settings": {"n": {"Failures": 1, "Inner": {"Entries": [{"Name": "x"}], "Settings": {"x": {"AttemptTimeout": true}}}}}
				}},
				{"RPC": {"Kind": "unary"}}
			]`,
		},
		{
			// Nobody waits for a cluster that is not going to be used.
			name: "a cluster within failbackDelay that connects again is passed over", tiers: []string{"a", "b"},
			steps: `[
				{"Config": {"Entries": [{"Name": "a"}, {"Name": "b"}], "Settings": {"a": {"FailbackDelay": true}, "b": {}}}},
				{"Site": {"Cluster": "a", "To": {"Up": [false, false]}}},
				{"Site": {"Cluster": "a", "To": {"Up": [true, true]}}},
				{"Site": {"Cluster": "a", "To": {"Up": [true, true], "Endpoints": "hole"}}},
				{"RPC": {"Kind": "unary"}}
			]`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var steps []modelStep
			if err := json.Unmarshal([]byte(tc.steps), &steps); err != nil {
				t.Fatal(err)
			}
			if result := replayModel(t, tc.tiers, modelPaces[len(modelPaces)-1], steps); result.failure != "" {
				t.Error(result.failure)
			}
		})
	}
}
