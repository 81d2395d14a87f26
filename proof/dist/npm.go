package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// nodeFolder is the npm package that finds the program and runs it.
const nodeFolder = "clients/node"

// nodePlatforms are the platforms of the npm packages, as Node calls them: process.platform and
// process.arch.
var nodePlatforms = map[platform][2]string{
	{"linux", "amd64"}:   {"linux", "x64"},
	{"linux", "arm64"}:   {"linux", "arm64"},
	{"darwin", "amd64"}:  {"darwin", "x64"},
	{"darwin", "arm64"}:  {"darwin", "arm64"},
	{"windows", "amd64"}: {"win32", "x64"},
	{"windows", "arm64"}: {"win32", "arm64"},
}

// npmPackages are what the npm packages share. The package botwired has the launcher, and the
// packages of the platforms, which are its optional dependencies, have the programs.
type npmPackages struct {
	manifest map[string]any // clients/node/package.json
	version  string         // Semantic Versioning
	launcher []entry
	licence  entry
	date     time.Time
}

func readNPM(ctx context.Context, src source) (npmPackages, error) {
	version, err := packageVersions(src.version)
	if err != nil {
		return npmPackages{}, err
	}
	n := npmPackages{version: version.npm, date: src.date}
	text, err := os.ReadFile(filepath.Join(nodeFolder, "package.json"))
	if err != nil {
		return npmPackages{}, err
	}
	if err := json.Unmarshal(text, &n.manifest); err != nil {
		return npmPackages{}, fmt.Errorf("%s/package.json: %w", nodeFolder, err)
	}
	var of struct{ Files []string }
	if err := json.Unmarshal(text, &of); err != nil {
		return npmPackages{}, fmt.Errorf("%s/package.json: %w", nodeFolder, err)
	}
	files := []string{nodeFolder + "/README.md"}
	for _, each := range of.Files {
		files = append(files, nodeFolder+"/"+each)
	}
	if n.launcher, err = tracked(ctx, files...); err != nil {
		return npmPackages{}, err
	}
	for i := range n.launcher {
		n.launcher[i].name = strings.TrimPrefix(n.launcher[i].name, nodeFolder+"/")
	}
	licence, err := os.ReadFile("LICENSE")
	n.licence = entry{"LICENSE", 0o644, licence}
	return n, err
}

// platformPackage is the name of the package with a platform's program.
func platformPackage(p platform) string {
	on := nodePlatforms[p]
	return "@botwired/" + on[0] + "-" + on[1]
}

// file is the name of a package's file, as "npm pack" has it.
func (n npmPackages) file(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-") + "-" + n.version + ".tgz"
}

// writeLauncher writes the package botwired. It names all platforms, whichever are packed now.
func (n npmPackages) writeLauncher(into string) error {
	programs := make(map[string]string, len(nodePlatforms))
	for p := range nodePlatforms {
		programs[platformPackage(p)] = n.version
	}
	return n.write(into, map[string]any{"optionalDependencies": programs}, n.launcher)
}

// writeProgram writes the package with the program of a platform.
func (n npmPackages) writeProgram(into string, p platform, program, sbom []byte, licences []entry) error {
	on, name := nodePlatforms[p], platformPackage(p)
	about := fmt.Sprintf("# %s\n\nThe program of [botwired](https://www.npmjs.com/package/botwired) for %s on %s.\n"+
		"Install botwired: it brings the package of your platform along.\n\n"+
		"`"+othersLicences+"` has the licences of all that is linked into the program, and `botwired.cdx.json` is its SBOM.\n",
		name, on[0], on[1])
	return n.write(into, map[string]any{
		"name": name, "description": fmt.Sprintf("The program of botwired for %s on %s", on[0], on[1]),
		"os": []string{on[0]}, "cpu": []string{on[1]},
		"files":           []string{"bin", othersLicences, "botwired.cdx.json"},
		"preferUnplugged": true, // Yarn would keep it in an archive, where nothing can run it
		"bin":             nil, "main": nil, "types": nil, "keywords": nil, "engines": nil,
		"mcpName": nil,
	}, []entry{
		{"bin/" + p.program(), 0o755, program}, {othersLicences, 0o644, oneText(licences)},
		{"botwired.cdx.json", 0o644, sbom}, {"README.md", 0o644, []byte(about)},
	})
}

// write writes a package. Its manifest is the launcher's with some keys changed, or taken out where
// the change is nil.
func (n npmPackages) write(into string, changes map[string]any, entries []entry) error {
	manifest := map[string]any{}
	for key, value := range n.manifest {
		manifest[key] = value
	}
	manifest["version"] = n.version
	for key, value := range changes {
		if manifest[key] = value; value == nil {
			delete(manifest, key)
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(manifest); err != nil {
		return err
	}
	name, ok := manifest["name"].(string)
	if !ok {
		return fmt.Errorf("%s/package.json has no name", nodeFolder)
	}
	all := slices.Concat(entries, []entry{{"package.json", 0o644, text.Bytes()}, n.licence})
	return writeArchive(filepath.Join(into, n.file(name)), "package", all, n.date)
}
