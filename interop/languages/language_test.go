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
	"slices"
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
	tools   []program
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

// program is what has to be on the PATH.
type program struct{ command, install string }

// missingProgramError is a program that is not installed.
type missingProgramError struct {
	program
	err error
}

func (e *missingProgramError) Error() string {
	return fmt.Sprintf("%s is not installed: %v", e.command, e.err)
}

func (e *missingProgramError) Unwrap() error { return e.err }

// chosen are the languages to be tested.
func chosen() []*language {
	if *withRust {
		return languages
	}
	return slices.DeleteFunc(slices.Clone(languages), func(l *language) bool { return l == &rust })
}

// make builds the server once, or finds that an earlier run has.
func (l *language) make() error {
	l.once.Do(func() { l.dir, l.err = l.find() })
	return l.err
}

func (l *language) find() (dir string, err error) {
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
		return "", fmt.Errorf("the server was not built: %w", err)
	}
	return dir, nil
}

func (l *language) findTools(look func(string) (string, error)) error {
	for _, needed := range l.tools {
		if _, err := look(needed.command); err != nil {
			return &missingProgramError{needed, err}
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
