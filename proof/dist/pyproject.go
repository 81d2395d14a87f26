package main

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// pythonFolder is the Python package: its pyproject.toml, and its code in src.
const pythonFolder = "clients/python"

// project is the table [project] of a pyproject.toml, which Python's own tools read for
// "pip install -e". The wheels take what they say of themselves from it.
type project struct {
	Name         string              `toml:"name"`
	Version      string              `toml:"version"` // the wheels' is git's
	Dynamic      []string            `toml:"dynamic"`
	Description  string              `toml:"description"`
	Readme       string              `toml:"readme"`
	Python       string              `toml:"requires-python"`
	License      string              `toml:"license"`
	LicenseFiles []string            `toml:"license-files"` // a wheel has the repository's, and those of the program
	Authors      []person            `toml:"authors"`
	Keywords     []string            `toml:"keywords"`
	Classifiers  []string            `toml:"classifiers"`
	URLs         map[string]string   `toml:"urls"`
	Dependencies []string            `toml:"dependencies"`
	Extras       map[string][]string `toml:"optional-dependencies"`
}

type person struct {
	Name  string `toml:"name"`
	Email string `toml:"email"`
}

// readProject reads a pyproject.toml. A key of [project] that the wheels do not pass on is an error:
// "pip install -e" and "pip install" would give two different packages.
func readProject(text string) (project, error) {
	var file struct {
		Project project `toml:"project"`
	}
	about, err := toml.Decode(text, &file)
	if err != nil {
		return project{}, fmt.Errorf("pyproject.toml: %w", err)
	}
	for _, key := range about.Undecoded() {
		if key[0] == "project" {
			return project{}, fmt.Errorf("pyproject.toml: %s: proof/dist does not take it into the wheels", key)
		}
	}
	p := file.Project
	for key, value := range map[string]string{
		"name": p.Name, "description": p.Description, "readme": p.Readme, "requires-python": p.Python, "license": p.License,
	} {
		if value == "" {
			return project{}, fmt.Errorf("pyproject.toml: project.%s is missing", key)
		}
	}
	return p, nil
}

// metadata is the file METADATA of a wheel, of version 2.4 of the core metadata. The licences are
// relative to the folder of licences in the wheel.
func (p project) metadata(version string, licences []string, readme string) (string, error) {
	fields := [][2]string{{"Metadata-Version", "2.4"}, {"Name", p.Name}, {"Version", version}, {"Summary", p.Description}}
	add := func(name string, values ...string) {
		for _, value := range values {
			fields = append(fields, [2]string{name, value})
		}
	}
	if len(p.Keywords) > 0 {
		add("Keywords", strings.Join(p.Keywords, ","))
	}
	for _, author := range p.Authors {
		if author.Email == "" {
			add("Author", author.Name)
		} else {
			add("Author-email", strings.TrimSpace(author.Name+" <"+author.Email+">"))
		}
	}
	add("License-Expression", p.License)
	add("License-File", licences...)
	add("Classifier", p.Classifiers...)
	add("Requires-Python", p.Python)
	add("Requires-Dist", p.Dependencies...)
	for _, name := range slices.Sorted(maps.Keys(p.Extras)) {
		add("Provides-Extra", name)
		for _, requirement := range p.Extras[name] {
			add("Requires-Dist", onlyWith(requirement, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.URLs)) {
		add("Project-URL", name+", "+p.URLs[name])
	}
	kind, known := map[string]string{".md": "text/markdown", ".txt": "text/plain"}[path.Ext(p.Readme)]
	if !known {
		return "", errors.New("pyproject.toml: project.readme: expected a name that ends in .md or .txt")
	}
	add("Description-Content-Type", kind+"; charset=UTF-8")

	var text strings.Builder
	for _, field := range fields {
		if strings.ContainsAny(field[1], "\r\n") {
			return "", fmt.Errorf("pyproject.toml: %q: expected one line", field[1])
		}
		fmt.Fprintf(&text, "%s: %s\n", field[0], field[1])
	}
	return text.String() + "\n" + readme, nil
}

// onlyWith restricts a requirement to an extra. The requirement may have a marker of its own.
func onlyWith(requirement, extra string) string {
	what, marker, _ := strings.Cut(requirement, ";")
	condition := fmt.Sprintf("extra == %q", extra)
	if marker = strings.TrimSpace(marker); marker != "" {
		condition = "(" + marker + ") and " + condition
	}
	return strings.TrimSpace(what) + " ; " + condition
}
