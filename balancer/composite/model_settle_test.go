package composite_test

import (
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/connectivity"
)

// settle waits until the channel has noticed what the model knows.
func (w *modelWorld) settle() {
	for again := true; again; {
		w.await(func() string { return w.unsettled(w.model.clusters) })
		again = w.sync(w.model.clusters)
	}
}

// sync delivers endpoints to clusters that are new, once more: what they reported
// before, as an answer to the first ones, may not have been published yet. It
// tells whether there were any.
func (w *modelWorld) sync(clusters map[string]*modelCluster) (news bool) {
	for _, c := range clusters {
		if c.idle {
			continue
		}
		news = w.sync(c.inner) || news
		tier := w.tiers[c.name]
		if tier.synced == c {
			continue
		}
		news, tier.synced = true, c
		switch site := w.model.sites[c.name]; {
		case site == nil, site.Endpoints == "":
			_ = tier.resolver.UpdateAddrs(tier.addrs...)
		case site.Endpoints == "empty":
			_ = tier.resolver.UpdateAddrs()
		}
	}
	return news
}

// await waits until nothing is left that the channel has not noticed.
func (w *modelWorld) await(left func() string) {
	end := time.Now().Add(modelPatience)
	for ; left() != ""; time.Sleep(modelNap) {
		if time.Now().After(end) {
			w.t.Fatalf("the channel has not noticed: %s", left())
		}
	}
}

// modelNap is how long to wait before looking again.
const modelNap = 200 * time.Microsecond

// unsettled says what the channel has not noticed yet, or "".
func (w *modelWorld) unsettled(clusters map[string]*modelCluster) string {
	for _, name := range sortedModelKeys(clusters) {
		c := clusters[name]
		tier := w.tiers[c.name]
		switch {
		case c.idle:
		case tier.own != nil:
			tier.mu.Lock()
			missing := tier.child == nil
			tier.mu.Unlock()
			if missing {
				return name + ": its policy is not there"
			}
		case c.settings.Inner != nil:
			if what := w.unsettled(c.inner); what != "" {
				return what
			}
		default:
			if what := tier.unsettled(w.model.sites[c.name]); what != "" {
				return what
			}
		}
	}
	return ""
}

func (s *modelServers) unsettled(site *modelSite) string {
	state, hosts, err := s.watch.reported()
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Name, err)
	}
	want := make(map[string]bool)
	for i, addr := range s.addrs {
		if site.Up[i] && site.Endpoints == "" {
			want[addr] = true
		}
	}
	switch {
	case site.Endpoints == "hole" && state == connectivity.Connecting:
	case len(want) == 0 && state == connectivity.TransientFailure:
	case len(want) > 0 && state == connectivity.Ready && maps.Equal(want, hosts):
	default:
		return fmt.Sprintf("%s: it is %v with the hosts %v: want %v", s.Name, state, hosts, want)
	}
	return ""
}

// watched tells whether the cluster has a child policy.
func (s *modelServers) watched() bool {
	_, _, err := s.watch.reported()
	return err == nil
}
