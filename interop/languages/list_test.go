package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// languages are all servers, in the order of the table's columns.
var languages = []*language{&golang, &python, &java, &node, &rust}

const noLoadReports = "it has no reports of load"

var golang = language{
	name: "Go", library: "grpc-go",
	command: func(string) *exec.Cmd {
		cmd := exec.Command(os.Args[0]) //nolint:gosec // the test binary itself
		cmd.Env = append(os.Environ(), goServerEnv+"=1")
		return cmd
	},
}

var python = language{
	name: "Python", library: "grpcio",
	tools: []program{
		{"python3", "apt-get install -y python3"},
		{"pip3", "apt-get install -y python3-pip"},
	},
	build: buildPython,
	command: func(dir string) *exec.Cmd {
		cmd := exec.Command("python3", filepath.Join(dir, "server.py"), filepath.Join(dir, descriptorFile)) //nolint:gosec // built by the test
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "lib"))
		return cmd
	},
	cannot: map[string]string{"orca_per_rpc": noLoadReports, "orca_oob": noLoadReports},
}

var java = language{
	name: "Java", library: "grpc-netty-shaded",
	tools: []program{
		{"javac", "apt-get install -y default-jdk-headless"},
		{"java", "apt-get install -y default-jdk-headless"},
		{"mvn", "apt-get install -y maven"},
	},
	build: buildJava,
	command: func(dir string) *exec.Cmd {
		classes := filepath.Join(dir, "classes") + string(filepath.ListSeparator) + filepath.Join(dir, "lib", "*")
		return exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", classes, "Server") //nolint:gosec // built by the test
	},
}

var node = language{
	name: "Node", library: "@grpc/grpc-js",
	tools: []program{
		{"node", "apt-get install -y nodejs"},
		{"npm", "apt-get install -y npm"},
	},
	build: buildNode,
	command: func(dir string) *exec.Cmd {
		return exec.Command("node", filepath.Join(dir, "server.js"), filepath.Join(dir, descriptorFile)) //nolint:gosec // built by the test
	},
	cannot: map[string]string{"orca_oob": "its reports of load between calls have no memory utilization"},
}

var rust = language{
	name: "Rust", library: "tonic",
	tools: []program{{"cargo", "apt-get install -y cargo, or rustup for a newer one"}},
	build: buildRust,
	command: func(dir string) *exec.Cmd {
		return exec.Command(filepath.Join(dir, "interop-server")) //nolint:gosec // built by the test
	},
	cannot: map[string]string{
		"custom_metadata":  "a handler cannot set the trailers of a call that succeeds",
		"orca_per_rpc":     noLoadReports,
		"orca_oob":         noLoadReports,
		headersThenFailure: "a handler cannot send headers before it has succeeded",
		forcedShutdown:     "there is no such shutdown",
	},
}

// folder is where the language's sources are.
func (l *language) folder() string { return strings.ToLower(l.name) }
