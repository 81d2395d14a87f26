//go:build faults && linux

package faults

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// quotaDisk mounts a disk with 1 GiB free, on which the returned directory may take only so many bytes.
// As with a user's quota, the system's figure for the free space does not show that.
func quotaDisk(t *testing.T, most int) (dir string) {
	t.Helper()
	needRoot(t, "mounting a disk with a quota")
	for _, tool := range []string{"mkfs.btrfs", "btrfs", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	run := func(skip bool, command ...string) {
		t.Helper()
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		switch {
		case err != nil && skip:
			t.Skipf("%v: %v: %s", command, err, out)
		case err != nil:
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	image, disk := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 1<<30)); err != nil {
		t.Fatal(err)
	}
	run(false, "mkfs.btrfs", "--quiet", image)
	run(true, "mount", "-o", "loop", image, disk)
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount %s: %v", disk, errors.Join(err, syscall.Unmount(disk, syscall.MNT_DETACH)))
		}
	})
	dir = filepath.Join(disk, "limited")
	run(true, "btrfs", "quota", "enable", disk)
	run(false, "btrfs", "subvolume", "create", dir)
	run(false, "btrfs", "qgroup", "limit", strconv.Itoa(most), dir)
	return dir
}

// takeQuota uses up the rest of the quota with another program's file.
func takeQuota(t *testing.T, dir string) (foreign string) {
	t.Helper()
	foreign = filepath.Join(dir, "foreign")
	f, err := os.Create(foreign)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for n := int64(64 << 20); n >= 4096; {
		switch err := syscall.Fallocate(int(f.Fd()), 0, size, n); {
		case err == nil:
			size += n
		case errors.Is(err, syscall.EDQUOT):
			n /= 2
		default:
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if free := freeBytes(t, dir); free < 4*diskReserve {
		t.Fatalf("the disk has %d bytes free: it is the disk that is full, not the quota", free)
	}
	return foreign
}

// hiddenQuota returns a command that becomes the daemon, and tells it that every disk has 1 GiB free. On a
// small disk, that is what a user's quota is like: only an attempt shows it.
func hiddenQuota(t *testing.T) []string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	var answer []byte
	for _, n := range []uint64{0x01021994, 4096, 1 << 19, 1 << 18, 1 << 18} { // type, block size; blocks: all, free, free for this user
		answer = binary.NativeEndian.AppendUint64(answer, n)
	}
	command := []string{
		path, "-D", "-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "-e", "signal=none",
		"-e", "trace=statfs", "-e", "inject=statfs:poke_exit=@arg2=" + hex.EncodeToString(answer),
	}
	if out, err := exec.Command(path, append(command[2:len(command):len(command)], "true")...).CombinedOutput(); err != nil {
		t.Skipf("strace cannot change answers here: %v: %s", err, out)
	}
	return append(command, builtBinary)
}

// A quota is used up that the system does not show, by the daemon's own writes and then by another program. The daemon
// refuses writes while a table finds no room, or ends when a record finds none. It has lost nothing, and
// takes writes again when there is room (contract 3).
func TestDiskQuota(t *testing.T) {
	t.Parallel()
	command := hiddenQuota(t)
	disk := smallDisk(t, 2*diskSize)
	up := newUpstream(t)
	up.down(t)
	data := filepath.Join(disk, "data")
	flags := []string{"--journal-disk-reserve", fmt.Sprint(diskReserve), "--journal-max-bytes", "1GiB"}
	d := startBy(t, command, data, up, flags...)
	l := newLedger()
	refused := fillForGood(t, l, d, "fill", 60_000)
	t.Logf("%d writes taken, %d refused with 507, %.1f MiB free", l.answered(200), refused, mib(freeBytes(t, disk)))
	refuses(t, l, d, 60_000)
	enlarge(t, disk, 4*diskSize)
	up.up(t)
	recovers(t, l, d, 60_000)

	up.down(t)
	foreign := fillUp(t, disk)
	later := newLedger()
	// For a while, a daemon that refuses makes room from garbage, and takes writes again.
	taken := time.Now()
	for i := 0; i < fillAtMost && time.Since(taken) < 2*time.Second; i++ {
		if status, _ := later.put(d.client, fmt.Sprint("later-", i), 60_000); status == http.StatusOK {
			taken = time.Now()
			continue
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d writes taken with no room", later.answered(http.StatusOK))
	select {
	case <-d.Exited():
		t.Logf("the process has ended: %s", d.Tail())
		d = startBy(t, command, data, up, flags...)
		refusesAll(t, d, data)
	default:
		refuses(t, later, d, 60_000)
	}
	up.up(t)
	recoversFrom(t, foreign, d, up, later)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// enlarge gives a disk of [smallDisk] more room.
func enlarge(t *testing.T, disk string, size int) {
	t.Helper()
	if err := syscall.Mount("faults", disk, "tmpfs", syscall.MS_REMOUNT, "size="+strconv.Itoa(size)); err != nil {
		t.Fatal(err)
	}
}

// A daemon that is started while a quota is used up waits for room, as on a full disk (contract 3).
func TestStartOverDiskQuota(t *testing.T) {
	t.Parallel()
	startsWithRoom(t, quotaDisk(t, 4*diskSize), takeQuota)
}
