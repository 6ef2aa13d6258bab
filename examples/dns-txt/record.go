package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// grpcConfig is what the TXT record _grpc_config.primary.example delivers to the
// clients of dns:///primary.example. The target of fallback would really be
// "dns:///fallback.example:443".
//
// The cluster primary has no target: its servers are those of the clients' own
// target. The second policy, pick_first, is for clients that do not have the
// library: gRPC takes the first policy that it knows, and a config without any is
// an error, on which clients that start then fail their RPCs.
const grpcConfig = `[{
	"serviceConfig": {
		"loadBalancingConfig": [
			{"composite": {"clusters": [
				{"name": "primary"},
				{"name": "fallback", "target": %q}
			]}},
			{"pick_first": {}}
		],
		"methodConfig": [{
			"name": [{}],
			"retryPolicy": {
				"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
				"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
			}
		}]
	}
}]`

// txt is the text of the record: an attribute and its value, without white space,
// since DNS has little room. It is cut into strings of 255 bytes at the most,
// which gRPC-Go joins again. ("clientLanguage": ["GO"] or "percentage": 10 beside
// "serviceConfig" would have it for some clients only.)
func txt(config string) (string, error) {
	text := bytes.NewBufferString("grpc_config=")
	if err := json.Compact(text, []byte(config)); err != nil {
		return "", fmt.Errorf("service config: %w", err)
	}
	return text.String(), nil
}
