package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/proof/loopback"
)

const (
	// firstGetWithin is how long a new user waits for the first value, from the archive on.
	firstGetWithin = 10 * time.Second
	// emulatedWithin bounds the same under an emulator, which takes many times as long.
	emulatedWithin = 2 * time.Minute
)

// useThoseThatRun uses the archive of this machine's platform, and that of linux/arm64 in an emulator
// where there is one.
func useThoseThatRun(ctx context.Context, src source, platforms []platform, dir, work string) error {
	emulator, _ := exec.LookPath("qemu-aarch64-static") // "" where there is none, and the line below says so
	for _, p := range platforms {
		u := user{archive: archive{src, p, dir}, home: filepath.Join(work, "user-"+p.os+"-"+p.arch), within: firstGetWithin}
		switch {
		case p == here:
		case p == platform{"linux", "arm64"} && runtime.GOOS == "linux" && emulator != "":
			u.emulator, u.within = []string{emulator}, emulatedWithin
		case p == platform{"linux", "arm64"} && runtime.GOOS == "linux":
			fmt.Printf("%-16s not started: qemu-user-static is not installed\n", p)
			continue
		default:
			fmt.Printf("%-16s not started: this machine is %s/%s\n", p, runtime.GOOS, runtime.GOARCH)
			continue
		}
		if err := u.begins(ctx); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// user is somebody who has downloaded an archive, on a machine without Go.
type user struct {
	archive  archive
	home     string        // an empty folder
	emulator []string      // a command that runs the program; none for this machine's own
	within   time.Duration // from the archive to the first get
	folder   string        // where the archive is unpacked
	address  string        // the daemon's
}

// begins does what a new user does first, and then tries what else the archive has.
func (u *user) begins(ctx context.Context) error {
	if err := u.firstGet(ctx); err != nil {
		return err
	}
	if len(u.emulator) > 0 {
		return nil // the rest is the same files as this machine's
	}
	return u.readsAndCompletes(ctx)
}

// firstGet unpacks the archive where there is no Go, starts the daemon, and sets and gets a first
// value. It measures how long that takes.
func (u *user) firstGet(ctx context.Context) (err error) {
	restore, err := withoutGo(u.home, "tar", "gzip", "sha256sum", "shasum")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if u.address, err = loopback.FreeAddress(ctx); err != nil {
		return err
	}
	if err := u.verifies(ctx); err != nil {
		return err
	}
	began := time.Now()
	if _, err := u.do(ctx, u.home, "tar", "xzf", u.archive.file()); err != nil {
		return err
	}
	u.folder = filepath.Join(u.home, u.archive.src.name(u.archive.platform))
	starting, cancel := context.WithTimeout(ctx, u.within)
	defer cancel()
	daemon, err := child.Start(starting, u.home, slices.Concat(u.emulator, []string{
		u.program(), "serve", "--upstream", "embedded", "--listen", u.address, "--data-dir", filepath.Join(u.home, "data"),
	})...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, daemon.Kill()) }()
	if _, err := u.botwired(ctx, "set", "demo", "greeting", "hello"); err != nil {
		return err
	}
	value, err := u.botwired(ctx, "get", "demo", "greeting")
	took := time.Since(began)
	if err != nil {
		return err
	}
	if strings.TrimSpace(value) != "hello" {
		return fmt.Errorf("get has said %q", value)
	}
	if took > u.within {
		return fmt.Errorf("from the archive to the first get took %s, and %s is the most", took, u.within)
	}
	fmt.Printf("%-16s from the archive to the first get: %s, on a PATH without Go\n", u.archive.platform, took.Round(10*time.Millisecond))
	return u.versionIsRight(ctx)
}

// verifies compares the archive with SHA256SUMS by the system's own program, as docs/install.md says.
func (u *user) verifies(ctx context.Context) error {
	for _, command := range [][]string{{"sha256sum"}, {"shasum", "-a", "256"}} {
		if _, err := exec.LookPath(command[0]); err == nil {
			_, err := u.do(ctx, u.archive.dir, append(command, "--check", "--ignore-missing", sumsFile)...)
			return err
		}
	}
	return errors.New("this machine has neither sha256sum nor shasum")
}

// withoutGo gives the process a PATH that has some programs, and neither go nor git.
func withoutGo(home string, programs ...string) (restore func() error, err error) {
	tools := filepath.Join(home, "tools")
	if err := os.MkdirAll(tools, 0o700); err != nil {
		return nil, err
	}
	for _, name := range programs {
		at, err := exec.LookPath(name)
		if err != nil && strings.HasPrefix(name, "sha") {
			continue // Linux has the one, macOS the other
		}
		if err != nil {
			return nil, err
		}
		if err := os.Symlink(at, filepath.Join(tools, name)); err != nil {
			return nil, err
		}
	}
	before := os.Getenv("PATH")
	if err := os.Setenv("PATH", tools); err != nil {
		return nil, err
	}
	restore = func() error { return os.Setenv("PATH", before) }
	if at, err := exec.LookPath("go"); err == nil {
		return nil, errors.Join(restore(), fmt.Errorf("go is still there: %s", at))
	}
	return restore, nil
}

// botwired runs a command of the unpacked program's, which finds the daemon by its address.
func (u *user) botwired(ctx context.Context, args ...string) (string, error) {
	return u.do(ctx, u.folder, slices.Concat(u.emulator, []string{u.program()}, args)...)
}

func (u *user) program() string { return filepath.Join(u.folder, u.archive.platform.program()) }

// do runs a command in a folder, with the environment of a new user.
func (u *user) do(ctx context.Context, dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + u.home, "PATH=" + os.Getenv("PATH"), "BOTWIRED_LISTEN=" + u.address, "MANPAGER=cat", "LC_ALL=C.UTF-8"}
	return outputOf(cmd)
}

// versionIsRight compares what the program says of itself with the commit.
func (u *user) versionIsRight(ctx context.Context) error {
	version, err := u.botwired(ctx, "version")
	if err != nil {
		return err
	}
	for _, want := range []string{u.archive.src.version, "commit", "date", runtime.Version(), u.archive.platform.String()} {
		if !strings.Contains(version, want) {
			return fmt.Errorf("botwired version lacks %s:\n%s", want, version)
		}
	}
	line, err := u.botwired(ctx, "--version")
	if err == nil && (strings.Count(line, "\n") != 1 || !strings.Contains(line, u.archive.src.version)) {
		err = fmt.Errorf("botwired --version is not one line with the version: %q", line)
	}
	return err
}

// overstruck is how some of the man programs print bold letters: each twice, with a backspace between.
var overstruck = regexp.MustCompile(`.\x08`)

// readsAndCompletes has man and the shells read what is for them, as far as this machine has them.
func (u *user) readsAndCompletes(ctx context.Context) error {
	if _, err := exec.LookPath("man"); err == nil {
		page, err := u.do(ctx, u.folder, "man", "./man/man1/botwired.1")
		if err != nil {
			return err
		}
		if !strings.Contains(overstruck.ReplaceAllString(page, ""), "SYNOPSIS") {
			return fmt.Errorf("man does not show the manual page:\n%s", page)
		}
		fmt.Printf("%-16s man shows the manual page\n", u.archive.platform)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		if said, err := u.do(ctx, u.folder, shell, "-n", completionFiles[shell]); err != nil || said != "" {
			return fmt.Errorf("%s cannot parse its completions: %w\n%s", shell, err, said)
		}
		fmt.Printf("%-16s %s parses its completions\n", u.archive.platform, shell)
	}
	return nil
}
