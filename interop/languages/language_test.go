package languages

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// sources are the servers, and the versions of what they need.
//
//go:embed python java node rust
var sources embed.FS

// language is a server of the test service in one language.
type language struct {
	name    string
	library string
	tools   []tool
	// build makes the server in b's folder, which holds the sources, the file
	// descriptorFile, and in the end all that command needs.
	build func(b *build) error
	// command starts the server that was built in dir.
	command func(dir string) *exec.Cmd
	// cannot has the cases and situations that the server cannot do, with the
	// reason.
	cannot map[string]string

	once sync.Once
	dir  string // of the built server
	err  error
}

// tool is a program that has to be on the PATH.
type tool struct{ command, install string }

// missingToolError is a tool that is not installed.
type missingToolError struct {
	language string
	tool     tool
}

func (e *missingToolError) Error() string {
	return fmt.Sprintf("%s is not installed: %s", e.tool.command, e.tool.install)
}

// byFlag is whether the language is tested only if a flag asks for it.
func (l *language) byFlag() bool { return l == &rust && !*withRust }

// make builds the server once, or finds that an earlier run has.
func (l *language) make() error {
	l.once.Do(func() { l.dir, l.err = l.find() })
	return l.err
}

func (l *language) find() (dir string, err error) {
	if l.byFlag() {
		return "", fmt.Errorf("not asked for: go test ./languages -rust")
	}
	if l.build == nil {
		return "", nil
	}
	if err := l.findTools(exec.LookPath); err != nil {
		return "", err
	}
	dir, err = l.cacheDir()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := l.buildInto(dir); err != nil {
		return "", fmt.Errorf("%s server was not built: %w", l.name, err)
	}
	return dir, nil
}

func (l *language) findTools(look func(string) (string, error)) error {
	for _, tool := range l.tools {
		if _, err := look(tool.command); err != nil {
			return &missingToolError{l.name, tool}
		}
	}
	return nil
}

// cacheDir is where the server is built: outside of the repository, in a folder
// whose name tells all that it depends on.
func (l *language) cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	version, err := exec.Command(l.tools[0].command, "--version").CombinedOutput() //nolint:gosec // a tool of the list
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", l.tools[0].command, err)
	}
	hash.Write(fmt.Appendf(nil, "%s %s %s", runtime.GOOS, runtime.GOARCH, version))
	hash.Write(descriptors())
	err = fs.WalkDir(sources, l.folder(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := sources.ReadFile(path)
		hash.Write(fmt.Appendf(nil, "%s %d %s", path, len(data), data))
		return err
	})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%.8x", l.folder(), hash.Sum(nil))
	return filepath.Join(cache, "grpc-composite", "interop", name), nil
}

// descriptors are the definitions of the test service, as grpc-go has them.
func descriptors() []byte {
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{
		testpb.File_grpc_testing_empty_proto,
		testpb.File_grpc_testing_messages_proto,
		testpb.File_grpc_testing_test_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		panic(err) // grpc-go's own definitions
	}
	return data
}
