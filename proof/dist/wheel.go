package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wheelTags are the platforms of the wheels, as pip calls them.
//
// The program for Linux is static: it needs no C library, and one wheel has the tags of both. They
// are of the oldest systems that a Python of today runs on. Go's linker marks the program for macOS
// with the oldest release that it starts on, which is 12; "dist check" compares.
var wheelTags = map[platform][]string{
	{"linux", "amd64"}: {"manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64", "musllinux_1_2_x86_64"},
	{"linux", "arm64"}: {"manylinux2014_aarch64", "manylinux_2_17_aarch64", "musllinux_1_1_aarch64", "musllinux_1_2_aarch64"},

	{"darwin", "amd64"}: {"macosx_12_0_x86_64"},
	{"darwin", "arm64"}: {"macosx_12_0_arm64"},

	{"windows", "amd64"}: {"win_amd64"},
	{"windows", "arm64"}: {"win_arm64"},
}

// wheels are what the wheels of all platforms share.
type wheels struct {
	project project
	version string // PEP 440
	readme  string
	code    []entry // the Python package, with the names that it has in a wheel
	licence entry   // botwired's own
	date    time.Time
}

func readWheels(ctx context.Context, src source) (wheels, error) {
	version, err := packageVersions(src.version)
	if err != nil {
		return wheels{}, err
	}
	text, err := os.ReadFile(filepath.Join(pythonFolder, "pyproject.toml"))
	if err != nil {
		return wheels{}, err
	}
	project, err := readProject(string(text))
	if err != nil {
		return wheels{}, err
	}
	readme, err := os.ReadFile(filepath.Join(pythonFolder, project.Readme))
	if err != nil {
		return wheels{}, err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return wheels{}, err
	}
	code, err := tracked(ctx, pythonFolder+"/src")
	if err != nil {
		return wheels{}, err
	}
	for i := range code {
		code[i].name = strings.TrimPrefix(code[i].name, pythonFolder+"/src/")
	}
	return wheels{project, version.python, string(readme), code, entry{"LICENSE", 0o644, licence}, src.date}, nil
}

// file is the name of a platform's wheel.
func (w wheels) file(p platform) string {
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", w.project.Name, w.version, strings.Join(wheelTags[p], "."))
}

// write writes the wheel of a platform into a folder. The program is among its scripts, which pip
// copies to where the commands of the environment are.
func (w wheels) write(into string, p platform, program, sbom []byte, licences []entry) error {
	entries, err := w.entries(p, program, sbom, licences)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeZip(&b, "", entries, w.date); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, w.file(p)), b.Bytes(), 0o644)
}

// entries are the files of a wheel. Those about it are the last ones, so that pip reads them from a
// server without the rest.
func (w wheels) entries(p platform, program, sbom []byte, licences []entry) ([]entry, error) {
	base := w.project.Name + "-" + w.version
	about := base + ".dist-info/"
	metadata, err := w.project.metadata(w.version, []string{w.licence.name, othersLicences}, w.readme)
	if err != nil {
		return nil, err
	}
	wheel := "Wheel-Version: 1.0\nGenerator: botwired-dist\nRoot-Is-Purelib: false\n"
	for _, tag := range wheelTags[p] {
		wheel += "Tag: py3-none-" + tag + "\n"
	}
	entries := slices.Concat(
		slices.SortedFunc(slices.Values(w.code), byName),
		[]entry{{base + ".data/scripts/" + p.program(), 0o755, program}},
		[]entry{
			{about + "licenses/" + w.licence.name, 0o644, w.licence.content},
			{about + "licenses/" + othersLicences, 0o644, oneText(licences)},
			{about + "METADATA", 0o644, []byte(metadata)},
			{about + "WHEEL", 0o644, []byte(wheel)},
			{about + "sboms/botwired.cdx.json", 0o644, sbom},
		},
	)
	record, err := recordOf(entries, about+"RECORD")
	return append(entries, entry{about + "RECORD", 0o644, record}), err
}

func byName(a, b entry) int { return cmp.Compare(a.name, b.name) }

// recordOf is the file RECORD of a wheel: each file with its hash and size, and RECORD without.
func recordOf(entries []entry, itself string) ([]byte, error) {
	var b bytes.Buffer
	rows := csv.NewWriter(&b)
	for _, e := range entries {
		sum := sha256.Sum256(e.content)
		row := []string{e.name, "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), strconv.Itoa(len(e.content))}
		if err := rows.Write(row); err != nil {
			return nil, err
		}
	}
	if err := rows.Write([]string{itself, "", ""}); err != nil {
		return nil, err
	}
	rows.Flush()
	return b.Bytes(), rows.Error()
}
