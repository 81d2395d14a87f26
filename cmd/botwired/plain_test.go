package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/botwired/botwired/config"
)

func TestTextsAboutFiles(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}, "permission denied at /x: give it to the user that botwired runs as"},
		{fmt.Errorf("journal /x: %w", &fs.PathError{Op: "open", Path: "/x/FORMAT", Err: syscall.EACCES}), "permission denied at /x/FORMAT: give"},
		{&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.ENOTDIR}, "/x is not a directory: choose another place"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, "/x is on a file system that is read-only: choose another place"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EIO}, "/x cannot be used: input/output error"},
		{fmt.Errorf("journal /x: %w", errors.New("corrupt")), "journal /x: corrupt"},
	} {
		if got := unusable(test.err); !strings.HasPrefix(got.Error(), test.want) || !errors.Is(got, test.err) {
			t.Errorf("%v becomes %q, want %q", test.err, got, test.want)
		}
	}
}

func TestTextsAboutListening(t *testing.T) {
	for _, test := range []struct {
		err  syscall.Errno
		want string
	}{
		{syscall.EACCES, "permission denied: this user may not listen there (ports below 1024 are for root): choose another address"},
		{syscall.EADDRNOTAVAIL, "this machine does not have that address: choose another"},
		{syscall.ENFILE, "too many open files in system"},
	} {
		err := &net.OpError{Op: "listen", Net: "tcp4", Err: os.NewSyscallError("bind", test.err)}
		if got := notListening(err); got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("%v becomes %q, want %q", err, got, test.want)
		}
	}
	missing := "unix://" + filepath.Join(t.TempDir(), "none", "s")
	_, err := listen(t.Context(), &config.Config{Listen: missing})
	if want := "the directory of the socket does not exist"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
}
