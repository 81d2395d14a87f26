package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// ownPrefix is the prefix of the file with which doctor tests a directory. It marks the file as
// botwired's.
const ownPrefix = "run.doctor-"

// nearReserve is the multiple of journal.disk_reserve below which doctor warns about free space.
const nearReserve = 4

// nearestTo returns the directory, or its nearest existing ancestor.
func nearestTo(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			return dir
		}
		dir = above
	}
}

// dataDir checks that the daemon's user, and nobody else, can use the data directory.
func (e *examination) dataDir(c *config.Config) Finding {
	const name = "data directory"
	dir := c.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := canWrite(nearestTo(dir)); err != nil {
			return fail(name, "export BOTWIRED_DATA_DIR="+attach.ShellWord(config.DefaultDataDir(os.Environ())),
				"%s does not exist, and serve cannot make it: %s", dir, words.Unusable(err))
		}
		return good(name, "%s does not exist yet: serve makes it", dir)
	case err != nil:
		return fail(name, "export BOTWIRED_DATA_DIR=/another/directory", "%s", words.Unusable(err))
	case !info.IsDir():
		return fail(name, "export BOTWIRED_DATA_DIR=/another/directory", "%s is a file", dir)
	case runtime.GOOS == "windows":
		return good(name, "%s", dir)
	}
	if err := canWrite(dir); err != nil {
		return fail(name, remedyOfUnwritable(dir, err), "%s", words.Unusable(err))
	}
	if mode := info.Mode().Perm(); mode&^0o700 != 0 {
		return warn(name, "chmod -R go= "+attach.ShellWord(dir), "other users of this machine can look into it: %s has mode %04o", dir, mode)
	}
	return good(name, "%s, for this user only", dir)
}

// remedyOfUnwritable returns the remedy if [canWrite] fails. A change of owner only helps if permission
// was denied.
func remedyOfUnwritable(dir string, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "sudo chown -R $(id -un) " + attach.ShellWord(dir)
	}
	return "df -h " + attach.ShellWord(dir) // no space, or a read-only file system
}

// canWrite creates a file and removes it.
func canWrite(dir string) error {
	f, err := os.CreateTemp(dir, ownPrefix+"*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// outOfReach returns why this command cannot examine a daemon's directory, or "" if it can.
func outOfReach(dir string) string {
	switch err := canWrite(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "the daemon uses " + dir + ", which is not on this machine: the daemon runs in a container or elsewhere, or somebody has removed the directory"
	case errors.Is(err, fs.ErrPermission):
		return "the daemon uses " + dir + ", which this user may not: run doctor as the daemon's user"
	}
	return ""
}

// tokenFile checks that only the daemon's user can read the token.
func (e *examination) tokenFile(context.Context) Finding {
	const name = "token file"
	file := e.loaded.Config.Auth.TokenFile
	switch {
	case file == "":
		return none(name, "callers need no token")
	case e.tokenError != nil:
		return fail(name, "chmod 600 "+attach.ShellWord(file), "%s", e.tokenError)
	}
	for _, warning := range e.loaded.Warnings {
		if strings.HasPrefix(warning, "auth.token_file") {
			return warn(name, "chmod 600 "+attach.ShellWord(file), "%s", warning)
		}
	}
	return good(name, "%s", file)
}

// disk checks the file system of the data directory, and that it has room for an outage's pending
// writes.
func (e *examination) disk(c *config.Config) Finding {
	const name = "disk"
	dir := nearestTo(c.DataDir)
	v, err := e.look(dir)
	reserve := uint64(c.Journal.DiskReserve)
	const elsewhere = "export BOTWIRED_DATA_DIR=/var/lib/botwired"
	look := "df -h " + attach.ShellWord(dir)
	room := fmt.Sprintf("%s free, and botwired refuses writes below journal.disk_reserve, %s: free some room", sizeOf(v.Free), sizeOf(reserve))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return none(name, "this system does not say what %s is on", dir)
	case err != nil:
		return warn(name, look, "%s", words.Reason(err))
	case v.Kind == Memory:
		return fail(name, elsewhere, "%s is in memory (%s): pending writes are lost at the next start of the machine; choose a directory on a disk", dir, v.Type)
	case v.Free < reserve:
		return fail(name, look, "%s", room)
	case v.Kind == Network:
		return warn(name, elsewhere, "%s is on another machine or shared with one (%s): its fsyncs and locks may not hold; choose a directory on a local disk", dir, v.Type)
	case v.Kind == Layer:
		return warn(name, elsewhere, "%s is in the container's own layer (%s) and goes with the container; mount a volume, and choose it", dir, v.Type)
	case v.Free < nearReserve*reserve:
		return warn(name, look, "%s", room)
	}
	return good(name, "%s is on a local disk (%s) with %s free", dir, v.Type, sizeOf(v.Free))
}

func sizeOf(bytes uint64) string { return term.Size(int64(bytes)) }

// shortly formats a duration to about three digits.
func shortly(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
