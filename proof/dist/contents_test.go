package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every module that is linked in, on any platform, comes with its licence.
func TestEveryModuleHasItsLicence(t *testing.T) {
	t.Chdir("../..")
	platforms, err := parsePlatforms(defaultPlatforms)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		packages, err := linkedInto(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := licences(t.Context(), packages)
		if err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if len(texts) < 50 {
			t.Errorf("%s: only %d licences", p, len(texts))
		}
	}
}

func TestAModuleWithoutALicenceStopsTheRelease(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "code.go"), "package code")
	packages := []linked{{ImportPath: "example.org/code", Dir: dir, Module: &module{Path: "example.org/code", Version: "v1.2.3", Dir: dir}}}
	if _, err := licences(t.Context(), packages); err == nil || !strings.Contains(err.Error(), "example.org/code") {
		t.Errorf("the error is %v", err)
	}
	for _, name := range []string{"LICENSE", "License.txt", "LICENCE.md", "COPYING", "LICENSE-GO", "UNLICENSE"} {
		put(t, filepath.Join(dir, name), "do as you like")
		texts, err := licences(t.Context(), packages)
		if err != nil || !hasEntry(texts, "licenses/example.org/code@v1.2.3/"+name) {
			t.Errorf("%s is no licence: %v", name, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func hasEntry(entries []entry, name string) bool {
	for _, e := range entries {
		if e.name == name {
			return true
		}
	}
	return false
}

// The SBOM of a program, here of this test's own: the modules that it is linked of, and nothing of
// the clock or of chance.
func TestTheBOMIsOfTheProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	src := source{"v1.2.3", someDate}
	t.Chdir("../..")
	var texts [2][]byte
	for i := range texts {
		if texts[i], err = bomOf(t.Context(), src, here, program, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two SBOMs of one program differ")
	}
	var b bom
	if err := json.Unmarshal(texts[0], &b); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, c := range b.Components {
		names[c.Name] = true
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !names[m.Path] {
			t.Errorf("%s is missing", m.Path)
		}
	}
	if !names["preact"] || !names[standardLibrary] {
		t.Error("preact or the standard library is missing")
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.Serial) {
		t.Errorf("the serial number is %s", b.Serial)
	}
	if b.Metadata.Timestamp != "2026-11-22T20:15:30Z" {
		t.Errorf("the timestamp is %s", b.Metadata.Timestamp)
	}
}

// A dependency is what the packages import, between the modules that they are of.
func TestDependencies(t *testing.T) {
	own, a, b := &module{Path: "own", Main: true}, &module{Path: "a", Version: "v1"}, &module{Path: "b", Version: "v2"}
	got, err := json.Marshal(dependencies("own", "std", []linked{
		{ImportPath: "fmt", Standard: true, Imports: []string{"os"}},
		{ImportPath: "own/cmd", Module: own, Imports: []string{"fmt", "a/x", "own/in"}},
		{ImportPath: "own/in", Module: own},
		{ImportPath: "a/x", Module: a, Imports: []string{"b"}},
		{ImportPath: "b", Module: b},
	}, []component{{Ref: "page"}}))
	want := `[{"ref":"own","dependsOn":["page","pkg:golang/a@v1","std"]},{"ref":"page","dependsOn":[]},` +
		`{"ref":"pkg:golang/a@v1","dependsOn":["pkg:golang/b@v2"]},{"ref":"pkg:golang/b@v2","dependsOn":[]},{"ref":"std","dependsOn":[]}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s\n%v", got, want, err)
	}
}

func TestAProgramIsForItsPlatform(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "program")
	if err := os.WriteFile(name+".go", []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", name, name+".go")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := read(t, name)
	for _, p := range []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		if err := isFor(p, program); (err == nil) != (p == platform{"linux", "arm64"}) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if isFor(platform{"linux", "amd64"}, []byte("#!/bin/sh\n")) == nil {
		t.Error("a script is a program of linux/amd64")
	}
}

// link is a Markdown link that leads to no other host and to no heading of the same page.
var link = regexp.MustCompile(`\]\(([^)\s:#]+)(?:#[^)\s]*)?\)`)

// A user of an archive can follow each link of its pages: none leads to a file that only the repository has.
func TestLinksLeadToFilesOfTheArchive(t *testing.T) {
	t.Chdir("../..")
	entries, err := tracked(t.Context(), documents...)
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, e := range entries {
		for name := e.name; name != "."; name = path.Dir(name) {
			there[name] = true
		}
	}
	count := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.name, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(e.content), -1) {
			count++
			if !there[path.Join(path.Dir(e.name), m[1])] {
				t.Errorf("%s links to %s, which the archive lacks", e.name, m[1])
			}
		}
	}
	if count < 50 {
		t.Errorf("only %d links were found", count)
	}
}
