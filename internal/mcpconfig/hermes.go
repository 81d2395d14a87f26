package mcpconfig

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Memory is what a client gets that keeps its memory in botwired, in place of a server of tools alone.
type Memory struct {
	Namespace string          // the only one, or "": the client's users each have their own
	ReadOnly  bool            // nothing is written
	Flags     []string        // of "botwired run", which finds the daemon
	Tools     json.RawMessage // a list of name, description and parameters
}

// The folder of Hermes' provider. Hermes loads it from its plugins.
//
//go:embed hermes/__init__.py hermes/plugin.yaml
var hermes embed.FS

// HermesNamespace is the namespace of Hermes' terminal, and begins those of a gateway's users, if none is named.
const HermesNamespace = "hermes"

// hermesSettings is the file of the folder that is made for each installation, in the order of its members.
const hermesSettings = "botwired.json"

// hermesFiles returns the files of the folder by name.
func hermesFiles(s Server) map[string][]byte {
	files := make(map[string][]byte)
	for _, name := range []string{"__init__.py", "plugin.yaml"} {
		files[name], _ = hermes.ReadFile("hermes/" + name) // they are embedded
	}
	files["plugin.yaml"] = bytes.Replace(files["plugin.yaml"], []byte("name: botwired\n"), []byte("name: "+s.Name+"\n"), 1)
	tools := s.Memory.Tools
	if tools == nil {
		tools = json.RawMessage("[]")
	}
	text, _ := json.MarshalIndent(struct { //nolint:errchkjson // the tools are valid
		Program   string          `json:"program"`
		Flags     []string        `json:"flags"`
		Namespace string          `json:"namespace"`
		ReadOnly  bool            `json:"read_only"`
		Tools     json.RawMessage `json:"tools"`
	}{s.Program, append([]string{}, s.Memory.Flags...), s.Memory.Namespace, s.Memory.ReadOnly, tools}, "", "  ")
	files[hermesSettings] = append(text, '\n')
	return files
}

// folderEntry shows the files of the folder, one after the other.
func folderEntry(s Server) string {
	var out strings.Builder
	files := hermesFiles(s)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(files))) {
		fmt.Fprintf(&out, "# %s\n%s\n", name, files[name])
	}
	return out.String()
}

// changeFolder writes the files of a folder, or removes them. It copies a file first that is not as botwired would
// write it now.
func changeFolder(folder string, s Server, remove bool) (done Change, err error) {
	done.File = folder
	files := hermesFiles(s)
	names := slices.Sorted(maps.Keys(files))
	before := make(map[string][]byte)
	for _, name := range names {
		if before[name], err = read(filepath.Join(folder, name)); err != nil {
			return done, err
		}
	}
	code := before["__init__.py"]
	if isForeign := code != nil && before[hermesSettings] == nil && !bytes.Equal(code, files["__init__.py"]); isForeign {
		return done, fmt.Errorf("%s is unchanged: another program's provider is there; give this one another --name", folder)
	}
	for _, name := range names {
		file := filepath.Join(folder, name)
		if before[name] == nil && remove || !remove && bytes.Equal(before[name], files[name]) {
			continue
		}
		done.Changed = true
		if before[name] != nil && !bytes.Equal(before[name], files[name]) {
			done.Backup = file + ".botwired.bak"
			saved, err := writeBeside(file, before[name], 0o600)
			if err = errors.Join(err, os.Rename(saved, done.Backup)); err != nil {
				return done, err
			}
		}
		if remove {
			err = os.Remove(file)
		} else {
			err = replace(file, before[name], files[name], false)
		}
		if err != nil {
			return done, err
		}
	}
	if !remove {
		return done, nil
	}
	err = errors.Join(os.RemoveAll(filepath.Join(folder, "__pycache__")), os.Remove(folder))
	if entries, failed := os.ReadDir(folder); errors.Is(failed, fs.ErrNotExist) || len(entries) > 0 {
		err = nil // what else is in the folder stays
	}
	return done, err
}
