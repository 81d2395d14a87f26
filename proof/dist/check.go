package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checkTools are what make distcheck prepares. The check itself needs no network.
type checkTools struct {
	bomCheck string // the program that compares an SBOM with CycloneDX's schema
	python   string // a virtual environment with uv, twine and check-wheel-contents
	house    string // a folder with the wheels that the Python package needs
}

// check packs two clean clones of the commit, each in an environment of its own, and compares the
// bytes. Then it looks into each archive and package, and uses those that run here.
func check(ctx context.Context, platforms []platform, tools checkTools, cold bool) (err error) {
	began := time.Now()
	for _, tool := range []string{tools.bomCheck, tools.python, tools.house} {
		if _, err := os.Stat(tool); err != nil {
			return fmt.Errorf("make distcheck makes it: %w", err)
		}
	}
	if changes, err := output(ctx, "git", "status", "--porcelain"); err != nil {
		return err
	} else if changes != "" {
		fmt.Println("The working tree has uncommitted changes: distcheck checks the last commit, without them.")
	}
	work, err := os.MkdirTemp("", "botwired-distcheck-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	one, err := packClone(ctx, platforms, filepath.Join(work, "one"), "umask 022", "TZ=UTC", "LC_ALL=C")
	if err != nil {
		return err
	}
	environ := []string{"TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8", "HOME=" + work, "USER=somebody", "GOFLAGS=-tags=unheard"}
	if cold {
		environ = append(environ, "GOCACHE="+filepath.Join(work, "cache"))
	}
	two, err := packClone(ctx, platforms, filepath.Join(work, "another folder", "of another name"), "umask 077", environ...)
	if err != nil {
		return err
	}
	if err := sameFiles(one, two); err != nil {
		return err
	}
	if err := verifySums(one); err != nil {
		return err
	}
	src, err := readSource(ctx)
	if err != nil {
		return err
	}
	src.version = strings.TrimSuffix(src.version, "-dirty") // the clones' is the commit's
	for _, p := range platforms {
		a := archive{src: src, platform: p, dir: one}
		if err := a.inspect(ctx, tools.bomCheck, work); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := useThoseThatRun(ctx, src, platforms, one, work); err != nil {
		return err
	}
	if err := usePackages(ctx, src, platforms, one, work, tools); err != nil {
		return err
	}
	fmt.Printf("%s: all as it should be, after %s\n", src.version, time.Since(began).Round(time.Second))
	return nil
}

// packClone clones HEAD into a folder and packs it there. It returns the folder of the archives.
func packClone(ctx context.Context, platforms []platform, dir, umask string, environ ...string) (string, error) {
	head, err := output(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	caches, err := output(ctx, "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH")
	if err != nil {
		return "", err
	}
	places := strings.Split(strings.TrimSpace(caches), "\n")
	if len(places) != 3 {
		return "", fmt.Errorf("go env has said %q", caches)
	}
	fmt.Printf("== a clean clone in %s\n", dir)
	script := umask + ` && git clone --quiet --no-local . "$1" && cd "$1" && git checkout --quiet --detach "$2" && ` +
		`go build -trimpath -o bin/packer ./proof/dist && exec bin/packer pack -platforms "$3"` // go run would pass on no signal
	names := make([]string, len(platforms))
	for i, p := range platforms {
		names[i] = p.String()
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", script, "sh", dir, strings.TrimSpace(head), strings.Join(names, " "))
	cmd.Env = slices.Concat(os.Environ(), []string{"GOCACHE=" + places[0], "GOMODCACHE=" + places[1], "GOPATH=" + places[2]}, environ)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("packing a clone: %w", err)
	}
	return filepath.Join(dir, "bin", "dist"), nil
}

// sameFiles returns an error that names the first difference of two folders.
func sameFiles(one, two string) error {
	names, err := fileNames(one)
	if err != nil {
		return err
	}
	others, err := fileNames(two)
	if err != nil {
		return err
	}
	if !slices.Equal(names, others) {
		return fmt.Errorf("the builds made %q and %q", names, others)
	}
	size := 0
	slices.SortStableFunc(names, func(a, b string) int { // the sums last: they differ if anything does
		return cmp.Compare(strings.Index(a, sumsFile), strings.Index(b, sumsFile))
	})
	for _, name := range names {
		a, err := os.ReadFile(filepath.Join(one, name))
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(two, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return fmt.Errorf("%s differs between the two builds%s", name, firstDifference(filepath.Join(one, name), filepath.Join(two, name)))
		}
		size += len(a)
	}
	fmt.Printf("two builds, the same bytes: %d files, %.1f MB\n", len(names), float64(size)/1e6)
	return nil
}

// firstDifference names an entry by which two archives differ, "" if there is none to be seen.
func firstDifference(one, two string) string {
	_, a, errA := readArchive(one)
	_, b, errB := readArchive(two)
	if errA != nil || errB != nil {
		return "" // no archives, or the difference has damaged one
	}
	if at := slices.CompareFunc(a, b, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.mode, y.mode), bytes.Compare(x.content, y.content))
	}); at == 0 {
		return ": its entries are the same, and their dates or order are not"
	}
	for i := range min(len(a), len(b)) {
		if a[i].name != b[i].name || a[i].mode != b[i].mode || !bytes.Equal(a[i].content, b[i].content) {
			return ": at " + a[i].name
		}
	}
	return fmt.Sprintf(": it has %d and %d entries", len(a), len(b))
}

func fileNames(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names, err
}

// verifySums compares a folder with its SHA256SUMS: each file is listed, and has the sum.
func verifySums(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	listed := []string{sumsFile}
	for line := range strings.Lines(string(text)) {
		want, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return fmt.Errorf("%s: %q is no sum and name", sumsFile, line)
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			return fmt.Errorf("%s is not what %s says", name, sumsFile)
		}
		listed = append(listed, name)
	}
	names, err := fileNames(dir)
	if err != nil {
		return err
	}
	slices.Sort(listed)
	if !slices.Equal(names, listed) {
		return fmt.Errorf("%s is over %q, and the folder has %q", sumsFile, listed, names)
	}
	fmt.Printf("%s: %d sums are right\n", sumsFile, len(listed)-1)
	return nil
}
