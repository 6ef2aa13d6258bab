// Package chaos breaks servers, DNS, certificates and configs at random under load,
// and checks what a composite channel promises all the while.
package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	_ "google.golang.org/grpc/balancer/leastrequest" // a child policy
	"google.golang.org/grpc/resolver/dns"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

var (
	seedFlag     = flag.Uint64("chaos.seed", 0, "seed of the plan; 0: a random one")
	durationFlag = flag.Duration("chaos.duration", 30*time.Second, "for how long there are faults")
	rateFlag     = flag.Int("chaos.rate", 1000, "RPCs a second at the most; a busy machine makes fewer")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(serverEnv); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// gRPC waits 30 s between questions, and as long for an answer.
	dns.SetMinResolutionInterval(100 * time.Millisecond)
	dns.SetResolvingTimeout(2 * time.Second)
	testkit.Main(m)
}
