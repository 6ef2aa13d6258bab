package composite

import (
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// With skipClustersWithoutHosts: false an attempt on a cluster without a host does not
// come to another, and all is left to the attempts after it.

// unskipped tells whether that holds for a policy with several clusters.
func unskipped(cfg *lbConfig) bool { return !cfg.slots.Skip() && len(cfg.clusters) > 1 }

const (
	// leaveSkipping is what is a remedy for all of it.
	leaveSkipping = "leave skipClustersWithoutHosts out"
	noOther       = "and no other cluster is tried, since skipClustersWithoutHosts is false"
)

// ended finds that an attempt on a cluster without a host ends the RPC, whatever the
// retry policy is.
func (l *linter) ended(config *svcconfig.Config, r root) {
	if !unskipped(r.config) || !r.config.failRequest {
		return
	}
	for _, m := range config.Methods() {
		if m.Retries() && !m.Waits() {
			l.warnf(r.Path+".noHost", "set it to FAIL_ATTEMPT, or "+leaveSkipping,
				"it is FAIL_REQUEST: an attempt on a cluster without a host ends the RPC with UNAVAILABLE, whatever the retry policy, %s", noOther)
			return
		}
	}
}

// stuck finds that no attempt follows one on a cluster without a host, for an entry
// with a retry policy.
func (l *linter) stuck(path string, cfg *lbConfig, m *svcconfig.MethodConfig) {
	switch {
	case !unskipped(cfg):
	case m.Waits():
		l.warnf(path+".waitForReady", "leave it out, or "+leaveSkipping,
			"an attempt on a cluster without a host waits for one until the RPC's deadline, %s", noOther)
	case !cfg.failRequest && !m.RetryPolicy.Retryable(codes.Unavailable):
		l.warnf(path+".retryPolicy.retryableStatusCodes", `add "UNAVAILABLE", or `+leaveSkipping,
			"an attempt on a cluster without a host ends the RPC with UNAVAILABLE, which is not listed, %s", noOther)
	}
}
