package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/upstream/natskv"
)

const (
	// hostFile holds the host name that marks a data directory's writes upstream. A copy of the
	// directory has the same name: the engine tells their writes apart by time and content.
	hostFile = "HOST"
	// markFile holds the bucket's mark: its state when last seen.
	markFile = "NATS"
	// hostSize is the length of a host's name, in characters of 5 random bits each.
	hostSize = 16
	// smallFileLimit is the largest such file that botwired reads, in bytes.
	smallFileLimit = 4 << 10
)

// clusterHost returns the host name of a data directory. It creates one for a new directory.
func clusterHost(dataDir string) (string, error) {
	name := filepath.Join(dataDir, hostFile)
	text, err := readSmall(name)
	if errors.Is(err, fs.ErrNotExist) {
		host := newHost()
		return host, writeDurably(name, host)
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

// newHost returns a unique name.
func newHost() string { return strings.ToLower(rand.Text()[:hostSize]) }

// fileMarks stores the mark in a file. It implements [natskv.Marks].
type fileMarks struct{ name string }

// Load implements [natskv.Marks].
func (f fileMarks) Load() (m natskv.Mark, err error) {
	text, err := readSmall(f.name)
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
	return writeDurably(f.name, string(text))
}

// errTooLarge is the error for a file larger than any that botwired writes.
var errTooLarge = fmt.Errorf("larger than %d bytes", smallFileLimit)

// readSmall reads a file of a few lines. It returns errTooLarge if the file is larger than
// smallFileLimit.
func readSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > smallFileLimit {
		return nil, fmt.Errorf("%s: %w", name, errTooLarge)
	}
	return os.ReadFile(name)
}

// writeDurably replaces a file with one line. After a power cut, the file holds either this line or the
// previous one.
func writeDurably(name, line string) error {
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return identity.SyncDirectory(filepath.Dir(name))
}
