package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// The SBOM is CycloneDX 1.6. It has the modules that the linker wrote into the program, Go's own
// library, and the files of others in the dashboard.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"` // of the content: two equal SBOMs have one number
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

const standardLibrary = "std"

// goPURL is the package URL of a module at a version.
func goPURL(path, version string) string { return "pkg:golang/" + path + "@" + version }

// bomOf returns the SBOM of a program.
func bomOf(ctx context.Context, src source, p platform, program string, packages []linked) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	root := component{
		Ref: goPURL(info.Main.Path, src.version), Type: "application", Name: "botwired", Version: src.version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, PURL: goPURL(info.Main.Path, src.version),
		Properties: []property{{"botwired:platform", p.String()}, {"botwired:go", info.GoVersion}},
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{{
		Ref: goPURL(standardLibrary, goVersion), Type: "library", Name: standardLibrary, Version: goVersion, PURL: goPURL(standardLibrary, goVersion),
	}}
	for _, m := range info.Deps {
		parts = append(parts, component{
			Ref: goPURL(m.Path, m.Version), Type: "library", Name: m.Path, Version: m.Version, PURL: goPURL(m.Path, m.Version),
			Properties: []property{{"botwired:go.sum", m.Sum}},
		})
	}
	dashboard, err := dashboardParts(ctx)
	if err != nil {
		return nil, err
	}
	parts = append(parts, dashboard...)
	slices.SortFunc(parts, func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })

	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{src.date.Format(time.RFC3339), root},
		Components: parts,
	}
	b.Dependencies = dependencies(root.Ref, goPURL(standardLibrary, goVersion), packages, dashboard)
	unnumbered, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	b.Serial = serialOf(unnumbered)
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// serialOf is a UUID of version 8 (RFC 9562), made of a hash.
func serialOf(content []byte) string {
	sum := sha256.Sum256(content)
	u := sum[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// dependencies says which module imports which, as far as the program contains both.
func dependencies(root, standard string, packages []linked, dashboard []component) []dependency {
	refs := make(map[string]string, len(packages)) // by import path
	for _, l := range packages {
		switch {
		case l.Standard || l.Module == nil:
			refs[l.ImportPath] = standard
		case l.Module.Main:
			refs[l.ImportPath] = root
		default:
			refs[l.ImportPath] = goPURL(l.Module.Path, l.Module.Version)
		}
	}
	edges := map[string]map[string]bool{root: {}, standard: {}}
	for _, l := range packages {
		from := refs[l.ImportPath]
		if edges[from] == nil {
			edges[from] = make(map[string]bool)
		}
		for _, imported := range l.Imports {
			if to := refs[imported]; to != "" && to != from {
				edges[from][to] = true
			}
		}
	}

	edges[standard] = map[string]bool{} // go list shows its vendored modules as its own
	for _, c := range dashboard {
		edges[root][c.Ref] = true
		edges[c.Ref] = map[string]bool{}
	}
	all := make([]dependency, 0, len(edges))
	for _, from := range slices.Sorted(maps.Keys(edges)) {
		all = append(all, dependency{from, slices.AppendSeq([]string{}, maps.Keys(edges[from]))}) // never null
		slices.Sort(all[len(all)-1].DependsOn)
	}
	return all
}

// dashboardParts reads which npm packages the dashboard's files are of.
func dashboardParts(ctx context.Context) ([]component, error) {
	found, err := tracked(ctx, vendored+"VENDORED")
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("git has no %sVENDORED", vendored)
	}
	seen := make(map[string]bool)
	var parts []component
	for lines := bufio.NewScanner(bytes.NewReader(found[0].content)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 || fields[0] == "#" || seen[fields[2]] {
			continue // a comment, or another file of the same package
		}
		seen[fields[2]] = true
		name, version, ok := strings.Cut(fields[2], "@")
		if !ok {
			return nil, fmt.Errorf("%sVENDORED: %q is no npm package with its release", vendored, fields[2])
		}
		purl := "pkg:npm/" + name + "@" + version
		parts = append(parts, component{Ref: purl, Type: "library", Name: name, Version: version, PURL: purl})
	}
	return parts, nil
}
