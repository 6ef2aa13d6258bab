//go:build !unix

package chaos

import (
	"errors"
	"testing"
)

func (s *server) halt(t testing.TB) { t.Error(errors.ErrUnsupported) }

func (s *server) proceed(t testing.TB) { t.Error(errors.ErrUnsupported) }
