package composite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	lintAB  = `{"name":"a","target":"dns:///a:1"},{"name":"b","target":"dns:///b:1"}`
	lintABC = lintAB + `,{"name":"c","target":"dns:///c:1"}`
)

// lintConfig is a service config with these entries of clusters, more fields of the
// policy, and more fields of the service config.
func lintConfig(clusters, policy, rest string) string {
	return fmt.Sprintf(`{"loadBalancingConfig":[{"composite":{"clusters":[%s]%s}}]%s}`, clusters, policy, rest)
}

// retried is lintConfig with a method config for all methods, with these fields.
func retried(clusters, policy, method string) string {
	return lintConfig(clusters, policy, `,"methodConfig":[{"name":[{}],`+method+`}]`)
}

// retryPolicy is a retry policy of so many attempts, with quick back-offs.
func retryPolicy(attempts int, codes ...string) string {
	if len(codes) == 0 {
		codes = []string{"UNAVAILABLE"}
	}
	return fmt.Sprintf(`"retryPolicy":{"maxAttempts":%d,"initialBackoff":"0.001s","maxBackoff":"0.01s","backoffMultiplier":2,"retryableStatusCodes":["%s"]}`,
		attempts, strings.Join(codes, `","`))
}

// backoffPolicy is a retry policy of so many attempts with these back-offs.
func backoffPolicy(attempts int, first, most string, multiplier float64) string {
	return fmt.Sprintf(`"retryPolicy":{"maxAttempts":%d,"initialBackoff":%q,"maxBackoff":%q,"backoffMultiplier":%v,"retryableStatusCodes":["UNAVAILABLE"]}`,
		attempts, first, most, multiplier)
}

const (
	notInUse    = `list {"composite": {...}} first in loadBalancingConfig`
	addRetry    = `add {"name": [{}], "retryPolicy": {...}} with "maxAttempts": %d, or retry with an interceptor after DialOptions`
	tooMany     = `make it as many as there are slots, give a cluster more attempts, or set overflow to USE_LAST_CLUSTER or ROUND_ROBIN`
	tooManyOne  = `leave the retryPolicy out, give a cluster more attempts, or set overflow to USE_LAST_CLUSTER or ROUND_ROBIN`
	tooFew      = `set it to 3, or take the clusters out that no attempt is for`
	ownRetry    = `if that is not meant, give the entry a retryPolicy of its own`
	forAll      = `add an entry with "name": [{}] and a retryPolicy`
	quick       = `set initialBackoff to "0.001s" and maxBackoff to "0.01s": the next attempt goes to another cluster`
	noThrottle  = `leave it out; cooldown takes out a cluster that fails, and no other`
	noName      = `remove it, or correct its name`
	wholeConfig = `loadBalancingConfig[0].composite`
)

// lintCases has, for each rule, configs that have the finding and configs like them
// that do not.
func lintCases() []lintCase {
	var cases []lintCase
	for _, part := range [][]lintCase{lintAttemptCases, lintHostCases, lintNameCases, lintTargetCases, lintTimeCases, lintIgnoredCases, lintPolicyCases} {
		cases = append(cases, part...)
	}
	return cases
}

type lintCase struct {
	name, config string
	want         []Finding
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func TestLint(t *testing.T) {
	for _, tc := range lintCases() {
		t.Run(tc.name, func(t *testing.T) {
			l := linter{proxy: noProxy}
			l.lint(tc.config)
			wantFindings(t, tc.config, l.findings, tc.want)
			if l.refused {
				t.Errorf("Lint(%s) says that gRPC-Go refuses the config", tc.config)
			}
		})
	}
}

// wantFindings compares findings, with their whole texts.
func wantFindings(t *testing.T, config string, got, want []Finding) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("Lint(%s) has", config)
	for _, f := range got {
		t.Errorf("   %v", f)
	}
	t.Error("want")
	for _, f := range want {
		t.Errorf("   %v", f)
	}
}

func TestLintRefused(t *testing.T) {
	for _, tc := range lintRefusedCases {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, f := range Lint(tc.config) {
				if f.Severity == Error && f.Remedy == "correct it: gRPC-Go refuses the whole service config" {
					got = append(got, f.Path+": "+f.Problem)
				} else {
					t.Errorf("another finding besides: %v", f)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("Lint(%s):\n%s\nwant:\n%s", tc.config, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if err := acceptedByGRPC(tc.config); err == nil {
				t.Errorf("gRPC-Go accepts %s", tc.config)
			}
		})
	}
}

// TestLintReadme checks that what the README begins with has no finding.
func TestLintReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "const serviceConfig = `")
	config, _, ok := strings.Cut(rest, "`")
	if !ok {
		t.Fatal("README.md has no service config")
	}
	l := linter{proxy: noProxy}
	l.lint(config)
	if len(l.findings) != 0 {
		t.Errorf("Lint(%s): %v", config, l.findings)
	}
}

func TestLintProxy(t *testing.T) {
	proxies := func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme != "https" {
			return nil, fmt.Errorf("asked for %v, want the scheme https", r.URL)
		}
		if r.URL.Host == "direct:1" {
			return nil, nil
		}
		return &url.URL{Scheme: "http", Host: "proxy:3128", User: url.UserPassword("user", "secret")}, nil
	}
	config := retried(`{"name":"own"},{"name":"far","target":"dns:///far:1"},{"name":"near","target":"dns:///direct:1"},{"name":"socket","target":"unix:///s"},{"name":"far"},{"name":"literal","target":"passthrough:///192.0.2.1:1"}`,
		"", retryPolicy(6))
	const remedy = "see that the host can be reached without the proxy, or leave the cluster's target out, so that the channel's own target is used"
	want := []Finding{
		{Warning, wholeConfig + ".clusters[1].target", `the environment (HTTPS_PROXY) has the proxy http://user:xxxxx@proxy:3128 for "far:1", but gRPC-Go uses one for the channel's own target alone: the cluster connects directly`, remedy},
		{Warning, wholeConfig + ".clusters[5].target", `the environment (HTTPS_PROXY) has the proxy http://user:xxxxx@proxy:3128 for "192.0.2.1:1", but gRPC-Go uses one for the channel's own target alone: the cluster connects directly`, remedy},
	}
	l := linter{proxy: proxies}
	l.lint(config)
	wantFindings(t, config, l.findings, want)
}

func TestFindingText(t *testing.T) {
	for _, tc := range []struct {
		finding    Finding
		text, json string
	}{
		{Finding{Error, "a[0].b", "is wrong", "correct it"}, "error: a[0].b: is wrong; correct it",
			`{"severity":"error","path":"a[0].b","problem":"is wrong","remedy":"correct it"}`},
		{Finding{Warning, "", "is odd", "look"}, "warning: is odd; look",
			`{"severity":"warning","path":"","problem":"is odd","remedy":"look"}`},
	} {
		if got := tc.finding.String(); got != tc.text {
			t.Errorf("String() is %q, want %q", got, tc.text)
		}
		got, err := json.Marshal(tc.finding)
		if err != nil || string(got) != tc.json {
			t.Errorf("as JSON: %s, %v; want %s", got, err, tc.json)
		}
	}
}
