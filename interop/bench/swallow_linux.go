package main

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// swallowConnects returns an address on which connects are neither accepted nor
// refused: a listener's whose queue is full. Linux drops what comes then.
func swallowConnects(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	const full = 100 * time.Millisecond // a connect that takes as long is swallowed
	for range 16 {
		conn, err := net.DialTimeout("tcp", addr, full)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatalf("%s accepts whatever comes", addr)
	return ""
}
