//go:build unix

package seal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// private returns an error if others may read or change the file.
func private(info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner is unknown")
	}
	return privateTo(os.Geteuid(), int(st.Uid), info.Mode().Perm())
}

func privateTo(user, owner int, mode os.FileMode) error {
	others := mode & 0o077
	if owner == 0 && user != 0 {
		others = mode & 0o037 // root gives it to this user by its group, as Kubernetes does
	}
	switch {
	case owner != 0 && owner != user:
		return fmt.Errorf("it belongs to user %d: expected a file of the daemon's user, or of root", owner)
	case others != 0: // guard 23.23
		return fmt.Errorf("mode %04o lets others read or change it: expected 0600 (chmod 600)", mode)
	}
	return nil
}
