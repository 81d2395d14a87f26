package main

import (
	"bytes"
	"context"
	"debug/macho"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// packagesAreRight looks into the wheel and the npm package of a platform: that they have the
// archive's program and SBOM, and say of themselves what they should.
func (a archive) packagesAreRight(ctx context.Context, program []byte) error {
	if wheelTags[a.platform] == nil {
		return nil
	}
	sbom, err := os.ReadFile(a.bomFile())
	if err != nil {
		return err
	}
	w, err := readWheels(ctx, a.src)
	if err != nil {
		return err
	}
	if err := w.isRight(filepath.Join(a.dir, w.file(a.platform)), a.platform, program, sbom); err != nil {
		return fmt.Errorf("%s: %w", w.file(a.platform), err)
	}
	n, err := readNPM(ctx, a.src)
	if err != nil {
		return err
	}
	if err := n.isRight(a.dir, a.platform, program, sbom); err != nil {
		return fmt.Errorf("%s: %w", n.file(platformPackage(a.platform)), err)
	}
	fmt.Printf("%-16s %s\n%-16s %s\n", a.platform, w.file(a.platform), a.platform, n.file(platformPackage(a.platform)))
	return nil
}

func (w wheels) isRight(file string, p platform, program, sbom []byte) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	entries, err := readZip(content)
	if err != nil {
		return err
	}
	base := w.project.Name + "-" + w.version
	about := base + ".dist-info/"
	if err := have(entries, []entry{
		{base + ".data/scripts/" + p.program(), 0o755, program},
		{about + "sboms/botwired.cdx.json", 0o644, sbom},
		{about + "licenses/LICENSE", 0o644, w.licence.content},
	}, []string{"botwired/__init__.py", "botwired/py.typed", about + "licenses/" + othersLicences}); err != nil {
		return err
	}
	if err := recordIsRight(entries, about+"RECORD"); err != nil {
		return err
	}
	if first := slices.IndexFunc(entries, func(e entry) bool { return strings.HasPrefix(e.name, about) }); slices.ContainsFunc(
		entries[first:], func(e entry) bool { return !strings.HasPrefix(e.name, about) }) {
		return fmt.Errorf("%s is not at the end", about)
	}
	return startsOn(p, program)
}

// have looks for some files, and for others by their names: these have to be there.
func have(entries, same []entry, there []string) error {
	for _, want := range same {
		at := slices.IndexFunc(entries, func(e entry) bool { return e.name == want.name })
		switch {
		case at < 0:
			return fmt.Errorf("%s is missing", want.name)
		case entries[at].mode != want.mode:
			return fmt.Errorf("%s has mode %s", want.name, entries[at].mode)
		case !bytes.Equal(entries[at].content, want.content):
			return fmt.Errorf("%s is not the one of the archive", want.name)
		}
	}
	for _, name := range there {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.name == name }) {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

// recordIsRight makes the list of a wheel's files anew from the files, and compares.
func recordIsRight(entries []entry, itself string) error {
	last := len(entries) - 1
	if last < 0 || entries[last].name != itself {
		return errors.New("RECORD is not the last file")
	}
	want, err := recordOf(entries[:last], itself)
	if err == nil && !bytes.Equal(entries[last].content, want) {
		err = errors.New("RECORD does not fit the files")
	}
	return err
}

// startsOn compares the oldest macOS that a program starts on, which the linker has written into it,
// with the tag of its wheel.
func startsOn(p platform, program []byte) error {
	if p.os != "darwin" {
		return nil
	}
	const buildVersion = 0x32 // LC_BUILD_VERSION: command, size, platform, oldest release, …
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, load := range f.Loads {
		raw := load.Raw()
		if f.ByteOrder.Uint32(raw) != buildVersion {
			continue
		}
		oldest := f.ByteOrder.Uint32(raw[12:])
		release := strconv.Itoa(int(oldest>>16)) + "_" + strconv.Itoa(int(oldest>>8&0xff))
		if !strings.HasPrefix(wheelTags[p][0], "macosx_"+release+"_") {
			return fmt.Errorf("the program starts on macOS %s and later, and the tag is %s", release, wheelTags[p][0])
		}
		return nil
	}
	return errors.New("the program does not say which macOS it needs")
}

// manifest is a package.json, as far as installers go by it.
type manifest struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	OS       []string          `json:"os"`
	CPU      []string          `json:"cpu"`
	Optional map[string]string `json:"optionalDependencies"`
	Scripts  map[string]string `json:"scripts"`
	Bin      map[string]string `json:"bin"`
}

func (n npmPackages) isRight(dir string, p platform, program, sbom []byte) error {
	name := platformPackage(p)
	entries, of, err := readPackage(filepath.Join(dir, n.file(name)))
	if err != nil {
		return err
	}
	if err := have(entries, []entry{
		{"bin/" + p.program(), 0o755, program}, {"botwired.cdx.json", 0o644, sbom}, {"LICENSE", 0o644, n.licence.content},
	}, []string{"README.md", othersLicences}); err != nil {
		return err
	}
	on := nodePlatforms[p]
	if of.Name != name || of.Version != n.version || !slices.Equal(of.OS, on[:1]) || !slices.Equal(of.CPU, on[1:]) || of.Bin != nil {
		return fmt.Errorf("its package.json says %+v", of)
	}
	entries, of, err = readPackage(filepath.Join(dir, n.file("botwired")))
	if err != nil {
		return err
	}
	if of.Version != n.version || of.Optional[name] != n.version || len(of.Optional) != len(nodePlatforms) || of.Scripts != nil || of.OS != nil {
		return fmt.Errorf("%s: its package.json says %+v", n.file("botwired"), of)
	}
	return have(entries, append(slices.Clone(n.launcher), n.licence), []string{of.Bin["botwired"], "index.js"})
}

// readPackage reads a file of npm's, and the package.json in it.
func readPackage(file string) ([]entry, manifest, error) {
	folder, entries, err := readArchive(file)
	if err != nil {
		return nil, manifest{}, err
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == "package.json" })
	if folder != "package" || at < 0 {
		return nil, manifest{}, fmt.Errorf("%s: there is no package/package.json", file)
	}
	var of manifest
	err = json.Unmarshal(entries[at].content, &of)
	return entries, of, err
}
