package words_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/botwired/botwired/internal/words"
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
		if got := words.Unusable(test.err); !strings.HasPrefix(got.Error(), test.want) || !errors.Is(got, test.err) {
			t.Errorf("%v becomes %q, want %q", test.err, got, test.want)
		}
	}
}
