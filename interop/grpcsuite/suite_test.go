// Package grpcsuite runs grpc-go's own end-to-end tests with every channel on the
// policy "composite": what a channel does with a policy, it does with that policy
// as the child of a composite one.
package grpcsuite

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var only = flag.String("suite.run", ".", "run only those of grpc-go's tests that `regexp` matches, by what follows Test/")

// different are the tests that cannot pass, by what is different on purpose.
var different = map[string][]string{
	"A cluster that is not lazy connects again when it has lost its connection, while pick_first stays IDLE.": {
		"ConnectivityStateSubscriber",
		"StateTransitions_MultipleAddrsEntersReady",
		"StateTransitions_ReadyToConnecting",
	},
	"The text of an error ends with the trail, and the test compares texts.": {
		"FailedServerStreaming",
		"StreamSetSendCompressorAfterHeaderSendFailure",
		"UnarySetSendCompressorAfterHeaderSendFailure",
		"UnregisteredSetSendCompressorFailure",
		"UnregisteredSetSendCompressorFailure/stream",
		"UnregisteredSetSendCompressorFailure/unary",
	},
	"The config selector replaces the RPC's context by one that does not come from it, and so loses what was in it.": {
		"ConfigSelector",
		"ConfigSelector/alter_MD",
		"ConfigSelector/alter_timeout;_remove_MD",
	},
	"A cluster in TRANSIENT_FAILURE is passed over, whatever its picker says. If there is no other the RPC is UNAVAILABLE.": {
		"PickerStatusCodes",
		"PickerStatusCodes/illegal_status_code",
	},
	"A cluster whose policy has refused an update has no host until it takes one, while a channel goes on with what the policy's picker does: here some of its routes.": {
		"ClientSideXDS_WithValidAndInvalidSecurityConfiguration",
		"ClientSideXDS_WithValidAndInvalidSecurityConfigurationSPIFFE",
	},
	"The policy's error is quoted, and the test looks for it as it was.": {
		"ClientSideXDS_WithNoCertificateProvidersInBootstrap_Failure",
	},
	"A cluster in TRANSIENT_FAILURE has no host until it is READY, while a channel waits when its policy connects again.": {
		"SubConnEmpty",
	},
}

// lazy are the tests that want a channel to stay IDLE when it has lost its
// connection. They pass with a lazy cluster.
var lazy = []string{"GoAwayThenClose", "SubConn_RegisterHealthListener"}

// TestSuite runs the tests in grpc-go's folders test and test/xds. What fails must
// be among the differences, and what is among them must fail.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	m := copyModule(t)
	for _, folder := range []string{"test", "test/xds"} {
		t.Run(folder, func(t *testing.T) {
			m.wrap(t, folder, packageNames[folder], false)
			got := runSuite(t, m, folder, *only, differences())
			for _, name := range differences() {
				if got[name] == "pass" {
					t.Errorf("%s passes: it is no difference", name)
				}
			}
		})
	}
	t.Run("test, lazy", func(t *testing.T) {
		m.wrap(t, "test", packageNames["test"], true)
		runSuite(t, m, "test", "^("+strings.Join(lazy, "|")+")$", nil)
	})
}

var packageNames = map[string]string{"test": "test", "test/xds": "xds_test"}

func differences() []string {
	names := slices.Clone(lazy)
	for _, list := range different {
		names = append(names, list...)
	}
	return names
}

// runSuite runs a folder's tests, and reports those that fail, but for the expected
// ones. A test that fails is run again, twice, with nothing beside it: grpc-go's
// tests have time limits, and the machine may be busy.
func runSuite(t *testing.T, m grpcModule, folder, pattern string, expected []string) map[string]string {
	t.Helper()
	binary := m.build(t, folder)
	results, output := runTests(t, m, folder, binary, "Test/"+pattern+"|TestZZ")
	found := updates.FindString(output[""])
	if found == "" {
		t.Error("no channel had the policy composite")
	}
	t.Log(found)
	counts := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		result := results[name]
		counts[result]++
		if result != "fail" || slices.Contains(expected, name) || strings.Contains(name, "/") {
			continue
		}
		for range 2 {
			again, _ := runTests(t, m, folder, binary, "Test/^"+regexp.QuoteMeta(name)+"$")
			if result = again[name]; result == "pass" {
				t.Logf("%s has passed after it had failed", name)
				break
			}
		}
		if result != "pass" {
			t.Errorf("%s fails:\n%s", name, output[name])
		}
	}
	t.Logf("%s: %d tests have passed, %d failed, %d were skipped", folder, counts["pass"], counts["fail"], counts["skip"])
	if counts["pass"] == 0 {
		t.Error("no test has passed")
	}
	return results
}

var updates = regexp.MustCompile(`composite channels: [1-9]\d* updates`)

// runTests returns the result of each test, "pass", "fail" or "skip", and its output,
// by what follows Test/ in its name. All output together has the name "".
func runTests(t *testing.T, m grpcModule, folder, binary, pattern string) (results, output map[string]string) {
	t.Helper()
	cmd := command(t.Context(), filepath.Join(m.dir, folder), "go", "tool", "test2json", "-t",
		binary, "-test.v=test2json", "-test.timeout=10m", "-test.run", pattern)
	lines, err := cmd.Output()
	results, output = map[string]string{}, map[string]string{}
	text := map[string]*strings.Builder{"": {}} // grpc-go logs much
	ended := false
	for decoder := json.NewDecoder(bytes.NewReader(lines)); ; {
		var event struct{ Action, Test, Output string }
		if decoder.Decode(&event) != nil {
			break
		}
		name := strings.TrimPrefix(event.Test, "Test/")
		switch event.Action {
		case "output":
			_, _ = text[""].WriteString(event.Output)
			if name != "" {
				if text[name] == nil {
					text[name] = new(strings.Builder)
				}
				_, _ = text[name].WriteString(event.Output)
			}
		case "pass", "fail", "skip":
			// What goroutines log may come in the middle of a result's line, so that
			// one is missed now and then: the end alone is sure.
			ended = ended || name == ""
			if name != "Test" && name != "" {
				results[name] = event.Action
			}
		}
	}
	for name, b := range text {
		output[name] = b.String()
	}
	if !ended {
		t.Fatalf("%s: the tests did not come to their end: %v\n%s\n%s", cmd, err, lines[max(0, len(lines)-10_000):], cmd.Stderr)
	}
	return results, output
}
