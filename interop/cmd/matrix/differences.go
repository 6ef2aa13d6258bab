package main

import "regexp"

// difference is what was another way in older versions.
type difference struct {
	// since is the first version that is as the newest one.
	since string
	// fact is what older ones do instead.
	fact string
	// tests match the names of the tests that fail there for that reason.
	tests *regexp.Regexp
	// env makes older versions do as the newest, so that no test fails.
	env string
	// untested: the library builds with older versions, and its tests do not.
	untested bool
}

// differences are known. One that is not true is reported.
var differences = []difference{
	{
		since:    "v1.79.0",
		fact:     "the library builds, its tests do not: `experimental/stats` has no `UnimplementedMetricsRecorder`",
		untested: true,
	},
	{
		since: "v1.80.0",
		fact:  "`ring_hash` obeys `requestHashHeader` only with `GRPC_EXPERIMENTAL_RING_HASH_SET_REQUEST_HASH_KEY=true` in the environment",
		env:   "GRPC_EXPERIMENTAL_RING_HASH_SET_REQUEST_HASH_KEY=true",
	},
	{
		since: "v1.81.0",
		fact:  "the error of an RPC whose retries are used up does not begin with \"max retries exhausted\"",
		tests: regexp.MustCompile(`^(TestOnlyFullClusters/is_retryable|TestTimeoutErrors/no_attempt_left,_.*|TestTimeoutErrorIsWrapped)$`),
	},
	{
		since: "v1.81.0",
		fact:  "a last attempt whose failure gRPC notices while it sends a message is a success for `cooldown`, and does not count if the client then gives up without receiving",
		tests: regexp.MustCompile(`^(TestUnreportedFailuresAndCooldown/the_last_attempt|TestDownloadThatIsGivenUp)$`),
	},
}

// differencesOf returns those that hold for a version.
func differencesOf(v string) []difference {
	var all []difference
	for _, d := range differences {
		if before(v, d.since) {
			all = append(all, d)
		}
	}
	return all
}
