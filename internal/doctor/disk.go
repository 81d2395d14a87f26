package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/binding"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
)

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

// dataDir checks that this user, and nobody else, can look into the data directory, and that serve would open its
// journal for the configured upstream. answers means that a daemon uses it.
func dataDir(c *config.Config, answers bool) Finding {
	const name = "data directory"
	dir := c.DataDir
	entries, err := os.Open(dir)
	switch {
	case answers && errors.Is(err, fs.ErrPermission):
		return none(name, "the daemon uses %s, which this user may not: run doctor as the daemon's user", dir)
	case answers && errors.Is(err, fs.ErrNotExist):
		return none(name, "the daemon uses %s, which is not on this machine: the daemon runs in a container or elsewhere, or somebody has removed the directory", dir)
	case errors.Is(err, fs.ErrNotExist):
		return good(name, "%s does not exist yet: serve makes it, or says why it cannot", dir)
	case err != nil:
		return fail(name, "export BOTWIRED_DATA_DIR=/another/directory", "%s", words.Unusable(err))
	}
	info, err := entries.Stat()
	switch err = errors.Join(err, entries.Close()); {
	case err != nil || !info.IsDir():
		return fail(name, "export BOTWIRED_DATA_DIR=/another/directory", "%s is no directory", dir)
	case answers: // the daemon has opened the journal
	default:
		var held journal.Holdings
		if held, err = journal.Examine(filepath.Join(dir, "journal")); err == nil {
			_, err = binding.Check(c, func() (journal.Holdings, error) { return held, nil })
		}
	}
	switch {
	case errors.Is(err, journal.ErrInUse):
		return warn(name, "", "another process uses %s, such as a daemon with another listen: serve could not", dir)
	case errors.Is(err, journal.ErrFormat):
		return fail(name, "", "%s", err)
	case errors.Is(err, journal.ErrMendable):
		return warn(name, "", "%s", err)
	case errors.Is(err, journal.ErrCorrupt):
		return fail(name, "botwired recover --data-dir "+attach.ShellWord(dir), "%s", err)
	case err != nil:
		return fail(name, "", "%s", words.Unusable(err))
	case runtime.GOOS != "windows" && info.Mode().Perm()&^0o700 != 0:
		return warn(name, "chmod -R go= "+attach.ShellWord(dir), "other users of this machine can look into it: %s has mode %04o", dir, info.Mode().Perm())
	}
	return good(name, "%s", dir)
}

// tokenFile checks that only the daemon's user can read the token.
func (e *examination) tokenFile(ctx context.Context) Finding {
	const name = "token file"
	file := e.loaded.Config.Auth.TokenFile
	_, err := e.ask(ctx)
	switch {
	case file == "" && api.IsRefused(err, http.StatusUnauthorized):
		return none(name, "the daemon wants a token, and auth.token_file names none here")
	case file == "" && strings.HasPrefix(e.loaded.Config.Listen, "unix://"):
		return none(name, "callers need no token: the socket's mode decides who may use it")
	case file == "":
		return none(name, "callers need no token: every account of this machine can read and write the memory through %s; auth.token_file keeps the others out",
			e.loaded.Config.Listen)
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

// disk checks the file system of the journal, whose folder may be a link to another disk, and that it has
// room for an outage's pending writes.
func (e *examination) disk(c *config.Config, answers bool) Finding {
	const name = "disk"
	dir := c.DataDir
	if !answers {
		dir = nearestTo(dir)
	}
	if journal, err := filepath.EvalSymlinks(filepath.Join(c.DataDir, "journal")); err == nil {
		dir = journal
	}
	v, err := e.look(dir)
	if answers && e.status != nil && e.status.Disk.Free != nil {
		v.Free = min(v.Free, uint64(*e.status.Disk.Free)) // the daemon counts inodes, too
	}
	reserve := uint64(c.Journal.DiskReserve)
	const elsewhere = "export BOTWIRED_DATA_DIR=/var/lib/botwired"
	look := "df -h " + attach.ShellWord(dir)
	room := fmt.Sprintf("%s free, and botwired refuses writes below journal.disk_reserve, %s: free some room", sizeOf(v.Free), sizeOf(reserve))
	switch {
	case answers && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return none(name, "%s is out of this command's reach", dir)
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
