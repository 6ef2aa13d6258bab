package composite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// names finds names of an entry that gRPC-Go accepts and finds no RPC for: it makes
// a path of them, and looks RPCs up by theirs.
func (l *linter) names(path string, m *svcconfig.MethodConfig) {
	for i, name := range m.Names() {
		field := ".service"
		if !strings.Contains(name.Service, "/") {
			field = ".method"
			if !strings.Contains(name.Method, "/") {
				continue
			}
		}
		rpcs := "whose path is " + strconv.Quote("/"+name.Service+"/"+name.Method)
		if name.Method == "" {
			rpcs = "whose path begins with " + strconv.Quote("/"+name.Service+"/")
		}
		l.warnf(fmt.Sprintf("%s.name[%d]%s", path, i, field), slashless(name),
			`it has a "/", and gRPC-Go adds its own: the entry is for RPCs %s, and generated code makes none`, rpcs)
	}
}

// slashless says how to write a name without slashes.
func slashless(name svcconfig.MethodName) string {
	switch parts := strings.FieldsFunc(name.Service+"/"+name.Method, func(r rune) bool { return r == '/' }); len(parts) {
	case 1:
		return fmt.Sprintf(`perhaps it should be {"service": %q}`, parts[0])
	case 2:
		return fmt.Sprintf(`perhaps it should be {"service": %q, "method": %q}`, parts[0], parts[1])
	default:
		return `write {"service": "package.Service", "method": "Method"}, without slashes`
	}
}
