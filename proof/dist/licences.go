package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// vendored are the files of others in the dashboard, with their licences beside them.
const vendored = "proxy/dashboard/assets/vendor/"

// linked is a package that the program contains.
type linked struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	Module     *module
}

// module is a module at a version. The project's own has none.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// linkedInto lists the packages of the program on a platform.
func linkedInto(ctx context.Context, p platform) ([]linked, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,Module", "./cmd/botwired")
	cmd.Env = buildEnviron(p)
	printed, err := outputOf(cmd)
	if err != nil {
		return nil, err
	}
	var all []linked
	for decoder := json.NewDecoder(strings.NewReader(printed)); ; {
		var l linked
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if l.Module != nil && l.Module.Replace != nil {
			return nil, fmt.Errorf("%s: its module is replaced, and a release is made of published modules only", l.ImportPath)
		}
		all = append(all, l)
	}
	return all, nil
}

// licenceName is how the files with a licence, or with what a licence asks to pass on, are named.
var licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([._-].*)?$|[._-]licen[cs]e(\.txt|\.md)?$`)

// licences returns the licences of all that is linked in: of the modules, of Go itself, and of the
// files of others in the dashboard. It is an error if a module has none.
func licences(ctx context.Context, packages []linked) ([]entry, error) {
	entries := make(map[string]entry)
	roots := make(map[string]module)
	for _, l := range packages {
		if l.Module == nil || l.Module.Main {
			continue
		}
		m := *l.Module
		roots[m.Path] = m
		for dir := l.Dir; ; dir = filepath.Dir(dir) { // a folder may have been taken from somebody else
			if err := gather(entries, dir, m); err != nil {
				return nil, err
			}
			if dir == m.Dir {
				break
			}
		}
	}
	for _, m := range roots {
		if !slices.ContainsFunc(keys(entries), func(name string) bool { return path.Dir(name) == licenceFolder(m) }) {
			return nil, fmt.Errorf("%s %s has no licence that a release could pass on", m.Path, m.Version)
		}
	}
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("the licence of Go: %w", err)
	}
	all := []entry{{"licenses/go/LICENSE", 0o644, text}}
	for _, e := range entries {
		all = append(all, e)
	}
	others, err := tracked(ctx, vendored+"*.LICENSE.txt", vendored+"VENDORED")
	if err != nil {
		return nil, err
	}
	for _, e := range others {
		e.name = "licenses/dashboard/" + strings.TrimPrefix(e.name, vendored)
		all = append(all, e)
	}
	return all, nil
}

func licenceFolder(m module) string { return path.Join("licenses", m.Path+"@"+m.Version) }

// gather adds the licences in one folder of a module.
func gather(entries map[string]entry, dir string, m module) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	within, err := filepath.Rel(m.Dir, dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !licenceName.MatchString(f.Name()) || filepath.Ext(f.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		name := path.Join(licenceFolder(m), filepath.ToSlash(within), f.Name())
		entries[name] = entry{name, 0o644, text}
	}
	return nil
}

func keys(entries map[string]entry) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	return names
}

// othersLicences is the file of a wheel, or of an npm package, with all that licences returns. One file
// has no deep folders, which some systems cannot unpack where their users have theirs.
const othersLicences = "THIRD-PARTY-LICENSES.txt"

// oneText is the texts of some files in one, each under its name.
func oneText(entries []entry) []byte {
	text := []byte("The program contains the work of others. These are their licences, each under the name of its module.\n")
	for _, e := range slices.SortedFunc(slices.Values(entries), byName) {
		rule := strings.Repeat("=", 80)
		text = fmt.Appendf(text, "\n%s\n%s\n%s\n\n%s\n", rule, strings.TrimPrefix(e.name, "licenses/"), rule, bytes.TrimSpace(e.content))
	}
	return text
}
