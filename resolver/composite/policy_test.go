package composite_test

// The policy, which the service configs of the targets are for. It imports the
// package, and so must be imported from outside of it.
import _ "github.com/grpc-composite/grpc-composite/balancer/composite"
