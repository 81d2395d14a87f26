package listen

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/botwired/botwired/config"
)

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
		if got := Why(err); got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("%v becomes %q, want %q", err, got, test.want)
		}
	}
	missing := "unix://" + filepath.Join(t.TempDir(), "none", "s")
	_, err := On(t.Context(), &config.Config{Listen: missing})
	if want := "the directory of the socket does not exist"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
}
