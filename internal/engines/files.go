package engines

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/upstream/natskv"
)

// DatabaseFile is the embedded upstream's database in the data directory. SQLite's other files have
// longer names.
const DatabaseFile = "memory.db"

const (
	// hostFile holds the host name that marks a data directory's writes upstream. A copy of the
	// directory has the same name: the engine tells their writes apart by time and content.
	hostFile = "HOST"
	// markFile holds the bucket's mark: its state when last seen.
	markFile = "NATS"
	// nameKeyFile holds the ID of the name key that the directory's sealed namespaces are hidden with.
	nameKeyFile = "NAMEKEY"
	// hostSize is the length of a host's name, in characters of 5 random bits each.
	hostSize = 16
)

// Files names all other files that the engines keep in a data directory.
var Files = []string{hostFile, markFile, nameKeyFile}

// hostOf returns the host name of a data directory. It creates one for a new directory.
func hostOf(dataDir string) (string, error) {
	name := filepath.Join(dataDir, hostFile)
	text, _, err := identity.ReadText(name)
	if errors.Is(err, fs.ErrNotExist) {
		host := strings.ToLower(rand.Text()[:hostSize])
		return host, identity.WriteLine(name, host)
	}
	if err != nil {
		return "", err
	}
	host := strings.TrimSpace(string(text))
	if len(host) < hostSize || len(host) > 4*hostSize || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", fmt.Errorf("the file %s names no host (%.40q): it is damaged. Remove it, and this host gets a new name", name, host)
	}
	return host, nil
}

// sameNames returns an error if the data directory was used with another name key.
func sameNames(dataDir, id string) error {
	name := filepath.Join(dataDir, nameKeyFile)
	text, _, err := identity.ReadText(name)
	switch known := strings.TrimSpace(string(text)); {
	case errors.Is(err, fs.ErrNotExist):
		return identity.WriteLine(name, id)
	case err != nil:
		return err
	case known != id: // guard 23.30
		return fmt.Errorf("its name key is %s, and data_dir was used with %.40q: all sealed namespaces would be other, empty ones, and their copies here "+
			"would go as if upstream had deleted everything. Bring the file with that key back. If it is lost, docs/sealed.md says under \"Lose the key\" "+
			"how to save the copies; to begin anew, remove %s", id, known, name)
	}
	return nil
}

// fileMarks stores the mark in a file. It implements [natskv.Marks].
type fileMarks struct{ name string }

// Load implements [natskv.Marks].
func (f fileMarks) Load() (m natskv.Mark, err error) {
	text, _, err := identity.ReadText(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return natskv.Mark{}, fmt.Errorf("the file %s does not say what the bucket was (%w): nobody can tell whether upstream has lost writes. "+
			"Remove it to believe the bucket that is there", f.name, err)
	}
	return m, nil
}

// Save implements [natskv.Marks].
func (f fileMarks) Save(m natskv.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return identity.WriteLine(f.name, string(text))
}
