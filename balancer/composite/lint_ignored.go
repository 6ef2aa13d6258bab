package composite

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

// ignored finds fields of the service config that gRPC-Go does not read.
func (l *linter) ignored(problems svcconfig.Problems) {
	for _, path := range problems.Repeated {
		l.warnf(path, "give it once", "it is given more than once in one object, and JSON does not say which one counts")
	}
	for _, u := range problems.Unknown {
		switch u.Name {
		case "hedgingPolicy":
			l.warnf(u.Path, "use a retryPolicy", "gRPC-Go has no hedging and ignores it: no attempt starts beside another, and none follows without a retryPolicy")
		case "perAttemptRecvTimeout":
			l.warnf(u.Path, "set attemptTimeout of the clusters", "gRPC-Go ignores it: no attempt ends because of it")
		default:
			l.warnf(u.Path, rename(u.Meant), "gRPC-Go has no such field, and ignores it")
		}
	}
}

// unknown finds fields that the config of a composite policy does not have.
func (l *linter) unknown(policy string, paths []string) {
	for _, path := range paths {
		name := path[strings.LastIndexByte(path, '.')+1:]
		l.warnf(policy+"."+path, rename(svcconfig.Nearest(name, fieldNames())), "the policy has no such field, and ignores it")
	}
}

func rename(meant string) string {
	if meant == "" {
		return "remove it, or correct its name"
	}
	return "perhaps it should be " + strconv.Quote(meant)
}

// fieldNames returns the names of all fields of the policy's config.
func fieldNames() []string {
	var names []string
	for _, m := range []protoreflect.ProtoMessage{(*pb.LoadBalancingConfig)(nil), (*pb.Cluster)(nil), (*pb.Cooldown)(nil)} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			names = append(names, fields.Get(i).JSONName())
		}
	}
	return names
}
