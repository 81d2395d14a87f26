//go:build unix

package seal

import (
	"os"
	"syscall"
)

// foreign returns the file's owner if it is neither this user nor root.
func foreign(info os.FileInfo) (owner int, other bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	owner = int(st.Uid)
	return owner, owner != 0 && owner != os.Geteuid()
}
