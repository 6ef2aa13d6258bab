package composite

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
)

// specQuery is the query of a target; the zero value of each field means that it
// was left out.
type specQuery struct {
	retryOn        []string
	attempts       uint64
	policy         string
	connectTimeout *time.Duration
	attemptTimeout *time.Duration
	overflow       string
}

// parseQuery reads the query. Its keys are known ones, each given once.
func parseQuery(raw string) (specQuery, error) {
	var q specQuery
	if raw == "" {
		return q, nil
	}
	seen := make(map[string]bool)
	for _, pair := range strings.Split(raw, "&") {
		key, escaped, _ := strings.Cut(pair, "=")
		at := fmt.Sprintf("query %q", pair)
		if seen[key] {
			return q, wrong(at, fmt.Sprintf("must be the only %q", key))
		}
		seen[key] = true
		value, err := url.QueryUnescape(escaped)
		if err != nil {
			return q, wrong(at, "must be escaped as in a URL: "+err.Error())
		}
		if err := q.set(key, value); err != nil {
			return q, wrong(at, err.Error())
		}
	}
	return q, nil
}

// slots is how many attempts so many clusters get in all.
func (q *specQuery) slots(clusters uint64) uint64 {
	return clusters * max(q.attempts, 1)
}

// set takes one key of the query. Its errors say what the key or its value must
// be.
func (q *specQuery) set(key, value string) (err error) {
	switch key {
	case "retryOn":
		q.retryOn, err = parseCodes(value)
	case "attempts":
		q.attempts, err = strconv.ParseUint(value, 10, 32)
		if err != nil || q.attempts == 0 {
			return errors.New("must be a whole number, at least 1")
		}
	case "policy":
		q.policy, err = value, checkPolicy(value)
	case "connectTimeout":
		if q.connectTimeout, err = parseDuration(value); err == nil && *q.connectTimeout < 0 {
			return errors.New("must not be negative")
		}
	case "attemptTimeout":
		if q.attemptTimeout, err = parseDuration(value); err == nil && *q.attemptTimeout <= 0 {
			return errors.New("must be positive")
		}
	case "overflow":
		switch q.overflow = value; value {
		case "FAIL", "USE_LAST_CLUSTER", "ROUND_ROBIN":
		default:
			return errors.New("must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN")
		}
	default:
		return errors.New("must be one of retryOn, attempts, policy, connectTimeout, attemptTimeout, overflow")
	}
	return err
}

// parseCodes reads a list of status codes, of which a retry policy allows any but
// OK.
func parseCodes(value string) ([]string, error) {
	names := strings.Split(value, ",")
	for _, name := range names {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil || code == codes.OK {
			return nil, fmt.Errorf("must list status codes, such as UNAVAILABLE,RESOURCE_EXHAUSTED, and %q is none that can be retried", name)
		}
	}
	return names, nil
}

// checkPolicy checks a child policy, which a target cannot give a config.
func checkPolicy(name string) error {
	builder := balancer.Get(name)
	if builder == nil {
		return errors.New("must name a policy that is registered, such as round_robin or pick_first")
	}
	if parser, ok := builder.(balancer.ConfigParser); ok {
		if _, err := parser.ParseConfig([]byte("{}")); err != nil {
			return fmt.Errorf("must name a policy that needs no config: %w", err)
		}
	}
	return nil
}

func parseDuration(value string) (*time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return nil, errors.New("must be a duration, such as 1.5s or 200ms")
	}
	return &d, nil
}
