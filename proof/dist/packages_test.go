package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/proof/ask"
)

const somePyproject = `
[project]
name = "botwired"
dynamic = ["version"]
description = "Memory"
readme = "README.md"
requires-python = ">=3.10"
license = "MIT"
authors = [{name = "Ada"}, {name = "Grace", email = "grace@example.org"}]
keywords = ["agents", "memory"]
classifiers = ["Typing :: Typed"]
dependencies = ["httpx>=0.27,<1"]

[project.optional-dependencies]
openai-agents = ["openai-agents>=1"]
crewai = ["crewai>=2; python_version < '3.14' or sys_platform == 'linux'", "other"]

[project.urls]
Homepage = "https://example.org/"

[tool.anything]
goes = true
`

// A wheel says of itself what pyproject.toml says.
func TestMetadata(t *testing.T) {
	p, err := readProject(somePyproject)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.metadata("1.2.3", []string{"LICENSE", "OTHERS.txt"}, "# Memory\n\nIt remembers.\n")
	want := `Metadata-Version: 2.4
Name: botwired
Version: 1.2.3
Summary: Memory
Keywords: agents,memory
Author: Ada
Author-email: Grace <grace@example.org>
License-Expression: MIT
License-File: LICENSE
License-File: OTHERS.txt
Classifier: Typing :: Typed
Requires-Python: >=3.10
Requires-Dist: httpx>=0.27,<1
Provides-Extra: crewai
Requires-Dist: crewai>=2 ; (python_version < '3.14' or sys_platform == 'linux') and extra == "crewai"
Requires-Dist: other ; extra == "crewai"
Provides-Extra: openai-agents
Requires-Dist: openai-agents>=1 ; extra == "openai-agents"
Project-URL: Homepage, https://example.org/
Description-Content-Type: text/markdown; charset=UTF-8

# Memory

It remembers.
`
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Nothing of pyproject.toml gets lost on the way into a wheel.
func TestAProjectThatAWheelWouldNotShow(t *testing.T) {
	for change, to := range map[string]string{
		`[project.urls]`:          "[project.scripts]\nbotwired = \"botwired:main\"\n[project.urls]",
		`license = "MIT"`:         `license = {file = "LICENSE"}`,
		`name = "botwired"`:       ``,
		`readme = "README.md"`:    `readme = "README.rst"`,
		`description = "Memory"`:  `description = "Memory\nName: other"`,
		`keywords = ["agents", `:  `keywords = [`,
		`[tool.anything]`:         `[tool.anything`,
		`dependencies = ["httpx>`: `dependencies = [1, "httpx>`,
	} {
		text := strings.Replace(somePyproject, change, to, 1)
		p, err := readProject(text)
		if err == nil {
			_, err = p.metadata("1.2.3", nil, "")
		}
		if isGood := strings.HasPrefix(change, "keywords"); (err == nil) != isGood || err != nil && !strings.Contains(err.Error(), "pyproject.toml") {
			t.Errorf("%q for %q: %v", to, change, err)
		}
	}
}

// The wheels of the tests hold these, in a file of this name.
var (
	wheelOn      = platform{"linux", "arm64"}
	wheelProgram = []byte("a program")
	wheelSBOM    = []byte("{}\n")
)

const wheelName = "botwired-1.2.3-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64.musllinux_1_2_aarch64.whl"

func someWheels(t *testing.T) wheels {
	t.Helper()
	p, err := readProject(somePyproject)
	if err != nil {
		t.Fatal(err)
	}
	return wheels{project: p, version: "1.2.3", readme: "read me", licence: entry{"LICENSE", 0o644, []byte("free")}, date: someDate, code: []entry{
		{"botwired/py.typed", 0o644, []byte{}}, {"botwired/__init__.py", 0o644, []byte("x = 1\n")},
	}}
}

// The bytes of a wheel depend on its content only, and its list of files is right.
func TestAWheel(t *testing.T) {
	w := someWheels(t)
	licences := []entry{{"licenses/b", 0o644, []byte("of b\n")}, {"licenses/a", 0o644, []byte("of a\n")}}
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := w.write(dir, wheelOn, wheelProgram, wheelSBOM, licences); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(w.code)
		slices.Reverse(licences)
		w.date = someDate.In(time.FixedZone("somewhere", 5*3600+45*60))
	}
	content := read(t, filepath.Join(one, wheelName))
	if !bytes.Equal(content, read(t, filepath.Join(two, wheelName))) {
		t.Error("the order of the files or the time zone gets into the wheel")
	}
	if err := w.isRight(filepath.Join(one, wheelName), wheelOn, wheelProgram, wheelSBOM); err != nil {
		t.Error(err)
	}
	entries, err := readZip(content)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, e := range entries {
		texts[strings.TrimPrefix(e.name, "botwired-1.2.3.dist-info/")] = string(e.content)
	}
	if tags := texts["WHEEL"]; strings.Count(tags, "\nTag: py3-none-m") != 4 || !strings.Contains(tags, "\nTag: py3-none-musllinux_1_2_aarch64\n") {
		t.Errorf("the tags are\n%s", tags)
	}
	if row := "botwired/__init__.py,sha256=nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q,6\n"; !strings.Contains(texts["RECORD"], row) {
		t.Errorf("the list of files lacks %q:\n%s", row, texts["RECORD"])
	}
	if all := texts["licenses/"+othersLicences]; strings.Index(all, "of a") > strings.Index(all, "of b") || !strings.Contains(all, "\na\n====") {
		t.Errorf("the licences are\n%s", all)
	}
}

// A wheel that is not as it should be is found out.
func TestASpoiltWheel(t *testing.T) {
	w, dir := someWheels(t), t.TempDir()
	if err := w.write(dir, wheelOn, wheelProgram, wheelSBOM, nil); err != nil {
		t.Fatal(err)
	}
	entries, err := readZip(read(t, filepath.Join(dir, wheelName)))
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func([]entry) []entry{
		"a file was changed":  func(e []entry) []entry { e[0].content = []byte("x = 2\n"); return e },
		"a file was added":    func(e []entry) []entry { return append([]entry{{"botwired/new.py", 0o644, nil}}, e...) },
		"a file is missing":   func(e []entry) []entry { return e[1:] },
		"the list is missing": func(e []entry) []entry { return e[:len(e)-1] },
		"another program": func(e []entry) []entry {
			at := slices.IndexFunc(e, func(e entry) bool { return strings.HasSuffix(e.name, "scripts/botwired") })
			e[at].content = []byte("another")
			return listed(t, e)
		},
		"a program that nobody may run": func(e []entry) []entry {
			at := slices.IndexFunc(e, func(e entry) bool { return strings.HasSuffix(e.name, "scripts/botwired") })
			e[at].mode = 0o644
			return e
		},
		"what is about it comes first": func(e []entry) []entry {
			last := len(e) - 1
			return listed(t, slices.Concat(e[last-1:last], e[:last-1], e[last:]))
		},
	} {
		file := filepath.Join(t.TempDir(), wheelName)
		var b bytes.Buffer
		if err := writeZip(&b, "", spoil(slices.Clone(entries)), someDate); err != nil {
			t.Fatal(err)
		}
		put(t, file, b.String())
		if err := w.isRight(file, wheelOn, wheelProgram, wheelSBOM); err == nil {
			t.Errorf("%s, and nobody says so", what)
		}
	}
}

// listed makes the list of a wheel's files anew.
func listed(t *testing.T, entries []entry) []entry {
	t.Helper()
	last := len(entries) - 1
	record, err := recordOf(entries[:last], entries[last].name)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(entries[:last]), entry{entries[last].name, 0o644, record})
}

// The npm packages of a release fit together, and the repository's own manifest takes no part in it.
func TestNPMPackages(t *testing.T) {
	t.Chdir("../..")
	n, err := readNPM(t.Context(), source{"v1.2.3-rc.1", someDate})
	if err != nil {
		t.Fatal(err)
	}
	dir, program, sbom := t.TempDir(), []byte("a program"), []byte("{}\n")
	if err := n.writeLauncher(dir); err != nil {
		t.Fatal(err)
	}
	for on := range nodePlatforms {
		if err := n.writeProgram(dir, on, program, sbom, someEntries); err != nil {
			t.Fatal(err)
		}
		if err := n.isRight(dir, on, program, sbom); err != nil {
			t.Errorf("%s: %v", on, err)
		}
		if n.isRight(dir, on, []byte("another"), sbom) == nil {
			t.Errorf("%s has another program, and nobody says so", on)
		}
	}
	_, of, err := readPackage(filepath.Join(dir, "botwired-win32-arm64-1.2.3-rc.1.tgz"))
	if want := (manifest{Name: "@botwired/win32-arm64", Version: "1.2.3-rc.1", OS: []string{"win32"}, CPU: []string{"arm64"}}); err != nil || !cmp.Equal(of, want) {
		t.Errorf("%+v, %v", of, err)
	}
	_, of, err = readPackage(filepath.Join(dir, "botwired-1.2.3-rc.1.tgz"))
	if err != nil || len(of.Optional) != 6 || of.Optional["@botwired/darwin-x64"] != "1.2.3-rc.1" || of.Bin["botwired"] != "bin/botwired.js" {
		t.Errorf("%+v, %v", of, err)
	}

	// A launcher that asks for another version finds no program.
	other := n
	other.version = "1.2.4"
	if err := other.writeLauncher(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "botwired-1.2.4.tgz"), filepath.Join(dir, "botwired-1.2.3-rc.1.tgz")); err != nil {
		t.Fatal(err)
	}
	if n.isRight(dir, platform{"linux", "amd64"}, program, sbom) == nil {
		t.Error("the launcher asks for another version, and nobody says so")
	}
}

// Each platform of a release has a wheel and an npm package.
func TestEveryPlatformHasItsPackages(t *testing.T) {
	platforms, err := parsePlatforms(defaultPlatforms)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		if len(wheelTags[p]) == 0 || !slices.IsSorted(wheelTags[p]) || nodePlatforms[p][0] == "" || len(uvPlatforms[p]) == 0 {
			t.Errorf("%s: %q %q %q", p, wheelTags[p], nodePlatforms[p], uvPlatforms[p])
		}
	}
	if len(wheelTags) != len(platforms) || len(nodePlatforms) != len(platforms) {
		t.Errorf("%d wheels, %d npm packages and %d platforms", len(wheelTags), len(nodePlatforms), len(platforms))
	}
}

// npm reads a manifest and a file from the registry, and finds no other package there.
func TestRegistry(t *testing.T) {
	t.Chdir("../..")
	n, err := readNPM(t.Context(), source{"v1.2.3", someDate})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := n.writeProgram(dir, platform{"linux", "amd64"}, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	r, err := startRegistry(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	var document struct {
		Versions map[string]struct {
			OS   []string
			Dist struct{ Tarball string }
		}
	}
	// npm escapes the slash of a scope.
	if err := json.Unmarshal(download(t, r.url+"/@botwired%2flinux-x64", 200), &document); err != nil {
		t.Fatal(err)
	}
	version := document.Versions["1.2.3"]
	if !slices.Equal(version.OS, []string{"linux"}) {
		t.Errorf("the manifest is %+v", document)
	}
	if !bytes.Equal(download(t, version.Dist.Tarball, 200), read(t, filepath.Join(dir, "botwired-linux-x64-1.2.3.tgz"))) {
		t.Error("the file is another")
	}
	download(t, r.url+"/left-pad", 404)
}

func download(t *testing.T, url string, status int) []byte {
	t.Helper()
	got, err := ask.Once(t.Context(), http.DefaultClient, http.MethodGet, url, nil)
	http.DefaultClient.CloseIdleConnections()
	if err != nil || got.Status != status {
		t.Fatalf("%s: %d, %v", url, got.Status, err)
	}
	return got.Body
}
