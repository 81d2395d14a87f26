package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// archive is the archive of a platform in a folder of archives.
type archive struct {
	src      source
	platform platform
	dir      string
}

func (a archive) file() string {
	ending := ".tar.gz"
	if a.platform.os == "windows" {
		ending = ".zip"
	}
	return filepath.Join(a.dir, a.src.name(a.platform)+ending)
}

func (a archive) bomFile() string { return filepath.Join(a.dir, a.src.name(a.platform)+".cdx.json") }

// inspect looks into an archive: that it has what it should, that its program is of the platform
// and of the commit, and that the SBOM names the program's modules and no others.
func (a archive) inspect(ctx context.Context, bomCheck, work string) error {
	folder, entries, err := readArchive(a.file())
	if err != nil {
		return err
	}
	if folder != a.src.name(a.platform) {
		return fmt.Errorf("the archive's folder is %s", folder)
	}
	if err := a.hasAll(entries); err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == a.platform.program() })
	if at < 0 {
		return fmt.Errorf("there is no %s", a.platform.program())
	}
	if entries[at].mode != 0o755 {
		return fmt.Errorf("%s has mode %s", entries[at].name, entries[at].mode)
	}
	if err := isFor(a.platform, entries[at].content); err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(entries[at].content))
	if err != nil {
		return err
	}
	if err := isOfThisCommit(ctx, info); err != nil {
		return err
	}
	if err := hasNoPlaces(ctx, entries[at].content, work); err != nil {
		return err
	}
	if err := a.bomIsRight(ctx, bomCheck, info, entries); err != nil {
		return err
	}
	return a.packagesAreRight(ctx, entries[at].content)
}

// hasAll looks for the files that a user is promised.
func (a archive) hasAll(entries []entry) error {
	sizes := make(map[string]int, len(entries))
	for _, e := range entries {
		sizes[e.name] = len(e.content)
	}
	wanted := []string{
		"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "man/man1/botwired.1", "man/man1/botwired-serve.1", "deploy/alerts.yml",
		"docs/contract.md", "licenses/go/LICENSE", "licenses/dashboard/preact.LICENSE.txt",
	}
	for _, name := range completionFiles {
		wanted = append(wanted, name)
	}
	for _, name := range wanted {
		if sizes[name] == 0 {
			return fmt.Errorf("%s is missing or empty", name)
		}
	}
	return nil
}

// isFor reads the header of a program: ELF, Mach-O or PE, and the processor.
func isFor(p platform, program []byte) error {
	var found string
	reader := bytes.NewReader(program)
	if f, err := elf.NewFile(reader); err == nil {
		found = map[elf.Machine]string{elf.EM_X86_64: "linux/amd64", elf.EM_AARCH64: "linux/arm64"}[f.Machine]
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			return errors.New("the program is linked dynamically, and would need this machine's C library")
		}
	} else if f, err := macho.NewFile(reader); err == nil {
		found = map[macho.Cpu]string{macho.CpuAmd64: "darwin/amd64", macho.CpuArm64: "darwin/arm64"}[f.Cpu]
	} else if f, err := pe.NewFile(reader); err == nil {
		found = map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "windows/amd64", pe.IMAGE_FILE_MACHINE_ARM64: "windows/arm64"}[f.Machine]
	}
	if found != p.String() {
		return fmt.Errorf("the program is for %s", cmp.Or(found, "no platform that is known here"))
	}
	return nil
}

func isOfThisCommit(ctx context.Context, info *debug.BuildInfo) error {
	head, err := output(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for key, want := range map[string]string{
		"vcs.revision": strings.TrimSpace(head), "vcs.modified": "false", "CGO_ENABLED": "0", "-trimpath": "true",
	} {
		if settings[key] != want {
			return fmt.Errorf("the program was built with %s=%s, and not %s", key, settings[key], want)
		}
	}
	return nil
}

// hasNoPlaces looks in a program for the folders that it was built in and of.
func hasNoPlaces(ctx context.Context, program []byte, work string) error {
	places, err := output(ctx, "go", "env", "GOMODCACHE", "GOROOT")
	if err != nil {
		return err
	}
	for _, place := range append(strings.Split(strings.TrimSpace(places), "\n"), work) {
		if bytes.Contains(program, []byte(place)) {
			return fmt.Errorf("the program has a path of this machine in it: %s", place)
		}
	}
	return nil
}

// bomIsRight compares an SBOM with CycloneDX's schema, and its modules with those that the linker
// wrote into the program, both ways.
func (a archive) bomIsRight(ctx context.Context, bomCheck string, info *debug.BuildInfo, entries []entry) error {
	said, err := exec.CommandContext(ctx, bomCheck, a.bomFile()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", bomCheck, err, said)
	}
	text, err := os.ReadFile(a.bomFile())
	if err != nil {
		return err
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("%s: %w", a.bomFile(), err)
	}
	inBOM := make(map[string]bool)
	for _, c := range b.Components {
		if strings.HasPrefix(c.PURL, "pkg:golang/") {
			inBOM[c.PURL] = true
		}
	}
	inProgram := []string{goPURL(standardLibrary, strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		inProgram = append(inProgram, goPURL(m.Path, m.Version))
		folder := licenceFolder(module{Path: m.Path, Version: m.Version}) + "/"
		if !slices.ContainsFunc(entries, func(e entry) bool { return strings.HasPrefix(e.name, folder) && e.mode == fs.FileMode(0o644) }) {
			return fmt.Errorf("the archive has no licence of %s", m.Path)
		}
	}
	for _, purl := range inProgram {
		if !inBOM[purl] {
			return fmt.Errorf("the program contains %s, and the SBOM does not", purl)
		}
		delete(inBOM, purl)
	}
	for purl := range inBOM {
		return fmt.Errorf("the SBOM names %s, and the program does not contain it", purl)
	}
	fmt.Printf("%-16s %d files; the SBOM is valid and names the program's %d modules\n", a.platform, len(entries), len(inProgram))
	return nil
}
