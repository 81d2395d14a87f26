package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sumsFile is named as sha256sum's users expect it.
const sumsFile = "SHA256SUMS"

// documents are what an archive has of the repository, beside the licences. README.md links to the
// pages in docs/.
var documents = []string{
	"LICENSE", "README.md", "INSTALL_FOR_AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "deploy", "examples",
	"docs/*.md", "docs/*.svg", "docs/*.png", "docs/*.json",
}

// pack builds the program for the platforms and writes the release into a folder.
func pack(ctx context.Context, platforms []platform, into string) error {
	src, err := readSource(ctx)
	if err != nil {
		return err
	}
	if strings.HasSuffix(src.version, "-dirty") {
		fmt.Println("The working tree has uncommitted changes: these archives can be made nowhere else.")
	}
	if err := os.RemoveAll(into); err != nil {
		return err
	}
	builds := filepath.Clean(into) + "-build"
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	hostProgram, err := build(ctx, src, here, builds)
	if err != nil {
		return err
	}
	release, err := begin(ctx, src, hostProgram, builds, into)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		program := hostProgram
		if p != here {
			if program, err = build(ctx, src, p, builds); err != nil {
				return err
			}
		}
		if err := release.pack(ctx, p, program); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return writeSums(into)
}

// release is a release on its way into a folder, with what all platforms share.
type release struct {
	src    source
	into   string
	common []entry // of the archives
	wheels wheels
	npm    npmPackages
}

// begin reads what all platforms share, and writes the npm package without a program.
func begin(ctx context.Context, src source, hostProgram, builds, into string) (r release, err error) {
	r = release{src: src, into: into}
	if r.common, err = commonEntries(ctx, src, hostProgram, builds); err != nil {
		return r, err
	}
	if r.wheels, err = readWheels(ctx, src); err != nil {
		return r, err
	}
	if r.npm, err = readNPM(ctx, src); err != nil {
		return r, err
	}
	return r, r.npm.writeLauncher(into)
}

// commonEntries are the entries that all platforms share.
func commonEntries(ctx context.Context, src source, program, builds string) ([]entry, error) {
	common, err := tracked(ctx, documents...)
	if err != nil {
		return nil, err
	}
	pages, err := manualPages(ctx, src, filepath.Join(builds, "man"))
	if err != nil {
		return nil, err
	}
	scripts, err := completions(ctx, program)
	if err != nil {
		return nil, err
	}
	return slices.Concat(common, pages, scripts), nil
}

// pack writes the archive of a platform, its SBOM, its wheel and its npm package.
func (r release) pack(ctx context.Context, p platform, program string) error {
	packages, err := linkedInto(ctx, p)
	if err != nil {
		return err
	}
	texts, err := licences(ctx, packages)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sbom, err := bomOf(ctx, r.src, p, program, packages)
	if err != nil {
		return err
	}
	a := archive{r.src, p, r.into}
	entries := slices.Concat(r.common, texts, []entry{{p.program(), 0o755, content}})
	if err := writeArchive(a.file(), r.src.name(p), entries, r.src.date); err != nil {
		return err
	}
	if err := os.WriteFile(a.bomFile(), sbom, 0o644); err != nil {
		return err
	}
	info, err := os.Stat(a.file())
	if err != nil {
		return err
	}
	fmt.Printf("%-16s %s, %d files, %.1f MB\n", p, a.file(), len(entries), float64(info.Size())/1e6)
	if wheelTags[p] == nil {
		fmt.Printf("%-16s no wheel and no npm package: pip and npm have no name for the platform here\n", p)
		return nil
	}
	if err := r.wheels.write(r.into, p, content, sbom, texts); err != nil {
		return err
	}
	return r.npm.writeProgram(r.into, p, content, sbom, texts)
}

// build builds the program for a platform, and returns its file. go knows the commit by itself, and
// the program shows it.
func build(ctx context.Context, src source, p platform, builds string) (string, error) {
	file := filepath.Join(builds, p.os+"_"+p.arch, p.program())
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w -X github.com/botwired/botwired/internal/build.version=" + src.version, "-o", file}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
		args = append(args, "-v") // a person watches: minutes pass if nothing is cached
	}
	began := time.Now()
	fmt.Printf("%-16s go build\n", p)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/botwired")...)
	cmd.Env = buildEnviron(p)
	cmd.Stderr = os.Stderr
	if _, err := outputOf(cmd); err != nil {
		return "", err
	}
	fmt.Printf("%-16s built in %s\n", p, time.Since(began).Round(100*time.Millisecond))
	return file, nil
}

// buildEnviron is the environment of go for a platform. It takes back what a person may have set
// that changes the program.
func buildEnviron(p platform) []string {
	return append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
}

// bare is an environment without a user: what the program prints is the same on all machines.
var bare = []string{"HOME=/nonexistent"}

// manualPages has the test that knows the tree of commands write their pages, as of the commit.
func manualPages(ctx context.Context, src source, dir string) ([]entry, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestManualPages$", "./cmd/botwired", "-man", dir)
	cmd.Env = append(os.Environ(), "TZ=UTC", fmt.Sprint("SOURCE_DATE_EPOCH=", src.date.Unix()))
	if _, err := outputOf(cmd); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pages []entry
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, entry{"man/man1/" + f.Name(), 0o644, text})
	}
	return pages, nil
}

// completionFiles are the names by which the shells, or their users, look for a script.
var completionFiles = map[string]string{
	"bash": "completions/botwired.bash", "zsh": "completions/_botwired",
	"fish": "completions/botwired.fish", "powershell": "completions/botwired.ps1",
}

// completions has the program print the shells' scripts.
func completions(ctx context.Context, program string) ([]entry, error) {
	var scripts []entry
	for shell, name := range completionFiles {
		cmd := exec.CommandContext(ctx, program, "completion", shell)
		cmd.Env = bare
		script, err := outputOf(cmd)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, entry{name, 0o644, []byte(script)})
	}
	return scripts, nil
}

// writeSums writes SHA256SUMS over the files in a folder, in sha256sum's format.
func writeSums(dir string) error {
	files, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(sums.String()), 0o644)
}
