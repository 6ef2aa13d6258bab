package testkit

import "google.golang.org/grpc/resolver"

func init() {
	resolver.Register(hostResolver{})
	resolver.Register(overridingResolver{})
}

// hostResolver takes the address from a target's host and leaves the rest of it
// to be the authority: "testkit-host://127.0.0.1:1/authority".
type hostResolver struct{}

func (hostResolver) Scheme() string { return "testkit-host" }

func (hostResolver) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	state := resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: target.URL.Host}}}}}
	return nopResolver{}, cc.UpdateState(state)
}

// overridingResolver does the same, and has its own idea of the authority.
type overridingResolver struct{ hostResolver }

func (overridingResolver) Scheme() string { return "testkit-host-override" }

func (overridingResolver) OverrideAuthority(target resolver.Target) string {
	return "override." + target.Endpoint()
}
