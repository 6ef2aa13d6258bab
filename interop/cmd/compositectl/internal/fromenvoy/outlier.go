package fromenvoy

import (
	"strconv"
	"strings"
)

// outlierFields maps the fields that gRPC's outlier detection (gRFC A50) has too to
// its own, with the message that they are in.
var outlierFields = map[string][2]string{
	"interval":                              {"", "interval"},
	"base_ejection_time":                    {"", "baseEjectionTime"},
	"max_ejection_time":                     {"", "maxEjectionTime"},
	"max_ejection_percent":                  {"", "maxEjectionPercent"},
	"enforcing_success_rate":                {"successRateEjection", "enforcementPercentage"},
	"success_rate_minimum_hosts":            {"successRateEjection", "minimumHosts"},
	"success_rate_request_volume":           {"successRateEjection", "requestVolume"},
	"success_rate_stdev_factor":             {"successRateEjection", "stdevFactor"},
	"enforcing_failure_percentage":          {"failurePercentageEjection", "enforcementPercentage"},
	"failure_percentage_threshold":          {"failurePercentageEjection", "threshold"},
	"failure_percentage_minimum_hosts":      {"failurePercentageEjection", "minimumHosts"},
	"failure_percentage_request_volume":     {"failurePercentageEjection", "requestVolume"},
	"consecutive_5xx":                       {},
	"consecutive_gateway_failure":           {},
	"consecutive_local_origin_failure":      {},
	"enforcing_consecutive_5xx":             {},
	"enforcing_consecutive_gateway_failure": {},
}

// outlierDetection wraps the policy of a cluster in outlier detection.
func (c *converter) outlierDetection(from *node, out *cluster) {
	n := from.get("outlier_detection")
	if n == nil {
		return
	}
	// Envoy's default, and not gRPC's: success rates are judged.
	config := map[string]any{"successRateEjection": map[string]any{}}
	c.failuresInARow(n)
	for _, f := range n.fields {
		to, known := outlierFields[f.name]
		switch {
		case known && to[1] == "":
			continue
		case !known:
			c.notef(f.line, "outlier_detection.%s: not carried over: gRPC's has nothing like it", shown(f.name))
			continue
		}
		value, ok := outlierValue(f.value)
		if !ok {
			c.notef(f.line, "outlier_detection.%s: not carried over: %s is not a value for it", f.name, shown(f.value.text()))
			continue
		}
		in := config
		if to[0] != "" {
			if config[to[0]] == nil {
				config[to[0]] = map[string]any{}
			}
			in, _ = config[to[0]].(map[string]any)
		}
		in[to[1]] = value
	}
	inner := out.ChildPolicy
	if inner == nil {
		inner = []map[string]any{{"round_robin": map[string]any{}}}
	}
	config["childPolicy"] = inner
	out.ChildPolicy = append([]map[string]any{{"outlier_detection_experimental": config}}, inner...)
	c.notef(n.line, "outlier_detection: carried over for programs that import google.golang.org/grpc/xds; others do without")
	c.notef(n.line, "outlier_detection: a cluster whose hosts are all ejected has no host: there is no panic mode")
}

// failuresInARow notes the settings of outlier detection that count failures in a row,
// and Envoy's default, which counts them as well.
func (c *converter) failuresInARow(n *node) {
	const instead = `gRPC's outlier detection does not count failures in a row; the cluster's "cooldown": {"consecutiveFailures": %s} does, for the cluster as a whole`
	percent, ok := uintOf(n.get("enforcing_consecutive_5xx"))
	off := ok && percent == 0
	for _, f := range n.fields {
		to, known := outlierFields[f.name]
		if off && strings.HasSuffix(f.name, "consecutive_5xx") {
			continue // Envoy ejects no host for it
		}
		if known && to[1] == "" {
			c.notef(f.line, "%s: not carried over: "+instead, f.name, orFive(f))
		}
	}
	if !off && n.get("consecutive_5xx") == nil {
		c.notef(n.line, "consecutive_5xx: left out, so in Envoy it is 5, which is not carried over: "+instead, "5")
	}
}

func orFive(f *field) string {
	if n, ok := uintOf(f.value); ok && n > 0 && f.name[0] == 'c' {
		return strconv.FormatUint(n, 10)
	}
	return "5"
}

// outlierValue reads a number or a duration.
func outlierValue(n *node) (any, bool) {
	if v, ok := uintOf(n); ok {
		return v, true
	}
	if d, ok := n.duration(); ok && d >= 0 {
		return seconds(d), true
	}
	return nil, false
}
