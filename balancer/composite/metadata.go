package composite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
)

// reservedKeys are those that gRPC or HTTP/2 sets itself or drops, besides all
// that begin with ":" or "grpc-".
var reservedKeys = []string{"connection", "content-length", "content-type", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "user-agent"}

// parseMetadata checks a cluster's metadata, so that no RPC fails for it.
func parseMetadata(fields map[string]string, path string) (metadata.MD, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	md := make(metadata.MD, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := fields[key]
		at := fmt.Sprintf("%s[%s]", path, configjson.Quote(key))
		switch {
		case key == "":
			return nil, fieldError(at, "", "must have a key that is not empty")
		case strings.HasPrefix(key, ":"), strings.HasPrefix(key, "grpc-"), slices.Contains(reservedKeys, key):
			return nil, fieldError(at, "", "must have a key that gRPC does not reserve for itself")
		case strings.ContainsFunc(key, notInKey):
			return nil, fieldError(at, "", `must have a key of lower-case letters, digits, "-", "_" and "."`)
		case !strings.HasSuffix(key, "-bin") && strings.ContainsFunc(value, notPrintable):
			// The value may be a secret.
			return nil, fieldError(at, "", `must be printable ASCII, unless the key ends with "-bin"`)
		}
		md.Set(key, value)
	}
	return md, nil
}

func notInKey(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }
