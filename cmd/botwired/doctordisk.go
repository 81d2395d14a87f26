package main

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
	"github.com/botwired/botwired/internal/doctor"
)

// slowSync is the time of an fsync at which callers begin to notice that each write waits for
// one.
const slowSync = 50 * time.Millisecond

// nearReserve is how many times journal.disk_reserve is little room.
const nearReserve = 4

// nearestTo returns a data directory, or the nearest directory above it that exists.
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
func (e *examination) dataDir(_ context.Context, c *config.Config) doctor.Finding {
	const name = "data directory"
	dir := c.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingDataDir(name, dir)
	case err != nil:
		return doctor.Fail(name, "export BOTWIRED_DATA_DIR=/another/directory", "%s", unusable(err))
	case !info.IsDir():
		return doctor.Fail(name, "export BOTWIRED_DATA_DIR=/another/directory", "%s is a file", dir)
	case runtime.GOOS == "windows":
		return doctor.Good(name, "%s", dir)
	}
	if err := canWrite(dir); err != nil {
		return doctor.Fail(name, "sudo chown -R $(id -un) "+shellWord(dir), "%s", unusable(err))
	}
	if open := openToOthers(dir, info); open != "" {
		return doctor.Warn(name, "chmod -R go= "+shellWord(dir), "other users of this machine can look into it: %s", open)
	}
	return doctor.Good(name, "%s, for this user only", dir)
}

// missingDataDir checks that serve can make the directory.
func missingDataDir(name, dir string) doctor.Finding {
	if err := canWrite(nearestTo(dir)); err != nil {
		return doctor.Fail(name, "export BOTWIRED_DATA_DIR="+shellWord(config.DefaultDataDir(os.Environ())), "%s does not exist, and serve cannot make it: %s", dir, unusable(err))
	}
	return doctor.Good(name, "%s does not exist yet: serve makes it", dir)
}

// canWrite makes a file and removes it again.
func canWrite(dir string) error {
	f, err := os.CreateTemp(dir, syncPrefix+"*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// openToOthers names the first file that other users may use, with its mode; "" if there is none.
func openToOthers(dir string, info fs.FileInfo) string {
	if mode := info.Mode().Perm(); mode&^dirMode != 0 {
		return fmt.Sprintf("%s has mode %04o", dir, mode)
	}
	for _, folder := range []string{dir, filepath.Join(dir, journalDir)} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // of a directory that was never used, or that the check of the mode names
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err == nil && info.Mode().Type()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 {
				return fmt.Sprintf("%s has mode %04o", filepath.Join(folder, entry.Name()), info.Mode().Perm())
			}
		}
	}
	return ""
}

// boundUpstream checks that the data directory belongs to the upstream.
func (e *examination) boundUpstream(_ context.Context, c *config.Config) doctor.Finding {
	const name = "data's upstream"
	u := &c.Upstream
	bound, err := readUpstream(c.DataDir)
	switch {
	case err != nil:
		return doctor.Fail(name, "echo "+shellWord(u.Identity())+" > "+shellWord(filepath.Join(c.DataDir, upstreamFile)), "%s", unusable(err))
	case bound == "":
		return doctor.None(name, "the directory was never used")
	case bound == config.Embedded && bound != u.Identity():
		return doctor.Fail(name, "export BOTWIRED_DATA_DIR=/another/directory",
			"the directory belongs to the memory service inside the daemon (embedded), and upstream.url is %s: choose another data_dir for that", u.URL)
	case bound != u.Identity():
		return doctor.Fail(name, saysMoved(c, bound),
			"the directory belongs to %s, and upstream.url is %s: choose another data_dir, or if the same service has a new address", bound, u.URL)
	}
	return doctor.Good(name, "the directory belongs to %s", bound)
}

// tokenFile checks that only the daemon's user can read the token; config has read it.
func (e *examination) tokenFile(context.Context) doctor.Finding {
	const name = "token file"
	file := e.loaded.Config.Auth.TokenFile
	switch {
	case file == "":
		return doctor.None(name, "callers need no token")
	case e.tokenError != nil:
		return doctor.Fail(name, "chmod 600 "+shellWord(file), "%s", e.tokenError)
	}
	for _, warning := range e.loaded.Warnings {
		if strings.HasPrefix(warning, "auth.token_file") {
			return doctor.Warn(name, "chmod 600 "+shellWord(file), "%s", warning)
		}
	}
	return doctor.Good(name, "%s", file)
}

func (e *examination) fileSystem(_ context.Context, c *config.Config) doctor.Finding {
	const name = "file system"
	dir := nearestTo(c.DataDir)
	v, err := e.look(dir)
	const elsewhere = "export BOTWIRED_DATA_DIR=/var/lib/botwired"
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return doctor.None(name, "this system does not say which it is")
	case err != nil:
		return doctor.Warn(name, "df -T "+shellWord(dir), "%s", reason(err))
	case v.Kind == doctor.Memory:
		return doctor.Fail(name, elsewhere, "%s is in memory (%s): pending writes are lost at the next start of the machine; choose a directory on a disk", dir, v.Type)
	case v.Kind == doctor.Network:
		return doctor.Warn(name, elsewhere, "%s is on another machine or shared with one (%s): its fsyncs and locks may not hold; choose a directory on a local disk", dir, v.Type)
	case v.Kind == doctor.Layer:
		return doctor.Warn(name, elsewhere, "%s is in the container's own layer (%s) and goes with the container; mount a volume, and choose it", dir, v.Type)
	}
	return doctor.Good(name, "%s is on a local disk (%s)", dir, v.Type)
}

// freeSpace checks that the disk has room for the pending writes of an outage.
func (e *examination) freeSpace(_ context.Context, c *config.Config) doctor.Finding {
	const name = "free space"
	dir := nearestTo(c.DataDir)
	v, err := e.look(dir)
	reserve := uint64(c.Journal.DiskReserve)
	look := "df -h " + shellWord(dir)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return doctor.None(name, "this system does not say how much there is")
	case err != nil:
		return doctor.Warn(name, look, "%s", reason(err))
	case v.Free < reserve:
		return doctor.Fail(name, look, "%s, and botwired refuses writes below journal.disk_reserve, %s: free some room", sizeOf(v.Free), sizeOf(reserve))
	case v.Free < nearReserve*reserve:
		return doctor.Warn(name, look, "%s, and botwired refuses writes below journal.disk_reserve, %s: free some room", sizeOf(v.Free), sizeOf(reserve))
	}
	return doctor.Good(name, "%s", sizeOf(v.Free))
}

func sizeOf(bytes uint64) string { return cell(fmt.Sprint(bytes)).size() }

// fsync measures how long a write waits for the disk.
func (e *examination) fsync(ctx context.Context, c *config.Config) doctor.Finding {
	const name = "fsync"
	dir := nearestTo(c.DataDir)
	took, err := e.syncs(ctx, dir)
	if errors.Is(err, fs.ErrPermission) {
		return doctor.None(name, "this user may not write in %s", dir)
	}
	if err != nil {
		return doctor.Fail(name, "dmesg | tail", "%s", unusable(err))
	}
	p50, p99 := doctor.Quantile(took, 0.5), doctor.Quantile(took, 0.99)
	text := fmt.Sprintf("p99 %s, p50 %s of %d in %s", shortly(p99), shortly(p50), len(took), dir)
	if p99 > slowSync {
		return doctor.Warn(name, "export BOTWIRED_DATA_DIR=/var/lib/botwired", "%s: each write of an agent waits for one; choose a directory on a faster disk", text)
	}
	return doctor.Good(name, "%s", text)
}

// shortly shows a duration to about three digits.
func shortly(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// descriptors checks the limit that a daemon started in this shell would have.
func (e *examination) descriptors(context.Context) doctor.Finding {
	const name = "open files"
	limit, enough := e.openFiles(), enoughDescriptors(e.loaded.Config.Upstream.Concurrency)
	switch {
	case limit == 0:
		return doctor.None(name, "this system has no limit")
	case limit < enough:
		return doctor.Warn(name, fmt.Sprintf("ulimit -n %d", roundUp(enough)), "this shell allows %d, and botwired may wait for a free descriptor with fewer than %d", limit, enough)
	}
	return doctor.Good(name, "this shell allows %d", limit)
}

// roundUp returns a number of which a person sees that it is a limit.
func roundUp(n uint64) uint64 {
	const usual = 1024
	return (n + usual - 1) / usual * usual
}
