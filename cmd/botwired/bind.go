package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/journal"
)

const (
	// upstreamFile holds, as text, the identity of the upstream that the journal beside
	// it belongs to. It is not in the journal itself: an older botwired ignores the
	// file, and a recovered journal still belongs to the same upstream.
	upstreamFile = "UPSTREAM"
	// upstreamFileLimit bounds how much botwired reads of it, in bytes.
	upstreamFileLimit = 4 << 10
)

// bindUpstream makes sure that the journal belongs to the configured upstream before the
// daemon asks that anything. Otherwise the daemon would send the pending writes of one
// service to another, and answer for one from copies of the other. bindUpstream binds an
// empty journal, and one of a botwired that recorded no upstream, to the configured one.
func bindUpstream(c *config.Config, j *journal.Journal, logger *slog.Logger) error {
	wanted, former := c.Upstream.Identity(), c.Upstream.FormerIdentity()
	bound, err := readUpstream(c.DataDir)
	if err != nil || bound == wanted {
		return err
	}
	switch bound {
	case "":
	case former:
		logger.Info("upstream has moved", "from", bound, "to", wanted)
	default:
		h, err := j.Holdings()
		if err != nil {
			return err
		}
		if h != (journal.Holdings{}) {
			return otherUpstream(bound, wanted, h)
		}
	}
	return writeUpstream(c.DataDir, wanted)
}

// otherUpstream is the error that says what is at stake and what to do.
func otherUpstream(bound, wanted string, h journal.Holdings) error {
	held := []string{plural(h.Pending, "pending write"), plural(h.DeadLetters, "dead letter")}
	if h.Copies {
		held = append(held, "copies of its entries")
	}
	first := ""
	if h.Pending > 0 {
		first = "flush with upstream.url = " + bound + " first, then "
	}
	same := "if the same service has a new address"
	if bound == config.Embedded { // most likely a trial's: its entries have no business in another service
		same = "if botwired selfhost now serves the memory.db in it"
	}
	return fmt.Errorf("upstream.url is %s, but the directory belongs to %s and holds %s: %schoose another data_dir, "+
		"or, %s, set upstream.moved_from = %s",
		wanted, bound, strings.Join(held, ", "), first, same, bound)
}

// readUpstream returns the recorded identity, or "" if there is none.
func readUpstream(dataDir string) (string, error) {
	name := filepath.Join(dataDir, upstreamFile)
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var text []byte
	if err == nil && info.Size() <= upstreamFileLimit {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return "", err
	}
	bound, ok := config.ParseIdentity(strings.TrimSpace(string(text)))
	if !ok {
		return "", fmt.Errorf("the file %s names no upstream (%.60q): it is damaged, and nobody knows whose entries the journal holds: "+
			"write into %s the URL of that upstream, as upstream.url had it", upstreamFile, strings.TrimSpace(string(text)), name)
	}
	return bound, nil
}

// writeUpstream records the identity of an upstream durably: after a power cut, the file holds this one
// or the one before.
func writeUpstream(dataDir, upstream string) error {
	name := filepath.Join(dataDir, upstreamFile)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, upstream)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return identity.SyncDirectory(dataDir)
}
