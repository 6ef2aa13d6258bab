package composite

import "fmt"

const noHostAtAll = `: the cluster can have no host`

// lintTarget is a config whose first cluster has this target.
func lintTarget(target string) string {
	return retried(fmt.Sprintf(`{"name":"a","target":%q},{"name":"b","target":"dns:///b:1"}`, target), "", retryPolicy(2))
}

// lintTargetFinding is the one finding about it.
func lintTargetFinding(problem, remedy string) []Finding {
	return []Finding{{Warning, wholeConfig + ".clusters[0].target", problem, remedy}}
}

var lintTargetCases = []lintCase{
	{"a name", lintTarget("a"), nil},
	{"a port alone", lintTarget("dns:///:443"), nil},
	{"no name", lintTarget("dns:///"), lintTargetFinding(`"dns:///" has no name to resolve`+noHostAtAll, `write a name, as in "dns:///host:port"`)},
	{"no name, and a server to ask", lintTarget("dns://user:secret@8.8.8.8/"), lintTargetFinding(`"dns://***@8.8.8.8/" has no name to resolve`+noHostAtAll, `write a name, as in "dns:///host:port"`)},
	{"no address", lintTarget("passthrough:"), lintTargetFinding(`"passthrough:" has no address`+noHostAtAll+`, unless the channel has a dialer of its own`, `write an address, as in "passthrough:///host:port"`)},

	{"a socket", lintTarget("unix:///tmp/x.sock"), nil},
	{"a socket, relative", lintTarget("unix:x.sock"), nil},
	{"a socket without a path", lintTarget("unix:"), lintTargetFinding(`"unix:" has no path`+noHostAtAll, `write a path, as in "unix:///path"`)},
	{"a socket with an authority", lintTarget("unix://tmp/x.sock"), lintTargetFinding(`"unix://tmp/x.sock" has the authority "tmp", and gRPC-Go refuses one`+noHostAtAll, `write three slashes, as in "unix:///path"`)},
	{"an abstract socket", lintTarget("unix-abstract:x"), nil},
	{"an abstract socket without a name", lintTarget("unix-abstract:"), lintTargetFinding(`"unix-abstract:" has no path`+noHostAtAll, `write a path, as in "unix-abstract:///path"`)},
	{"an abstract socket with an authority", lintTarget("unix-abstract://x"), lintTargetFinding(`"unix-abstract://x" has the authority "x", and gRPC-Go refuses one`+noHostAtAll, `write three slashes, as in "unix-abstract:///path"`)},
	{"a socket without a path, where none is needed", retried(`{"name":"n","target":"unix:","childPolicy":[{"composite":{"clusters":[{"name":"c","target":"dns:///c:1"}]}}]}`, "", `"timeout":"1s"`), nil},

	{"a target inside", retried(lintNested("", `{"clusters":[{"name":"c","target":"dns:///c:1"},{"name":"d","target":"dns:///"}]}`)+`,{"name":"b"}`, "", retryPolicy(2)), []Finding{
		{Warning, wholeConfig + ".clusters[0].childPolicy[0].composite.clusters[1].target", `"dns:///" has no name to resolve` + noHostAtAll, `write a name, as in "dns:///host:port"`}}},
}
