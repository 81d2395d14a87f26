package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/journal"
)

// upstreamFile holds, as text, the identity of the upstream that the journal beside
// it belongs to. It is not in the journal itself: an older botwired ignores the
// file, and a recovered journal still belongs to the same upstream.
const upstreamFile = "UPSTREAM"

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
		if isCluster(bound) != isCluster(wanted) {
			logger.Warn("upstream is another kind of service now. Pending writes go to it, and the copies here count as copies of its entries. "+
				"botwired carries nothing else over: if the entries of the old one are to be there, export them from it, "+
				"and import them through a daemon with a new data_dir",
				"from", bound, "to", wanted)
		}
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
	if isCluster(bound) != isCluster(wanted) {
		same = "if the memory has been carried over"
	}
	return fmt.Errorf("upstream.url is %s, but the directory belongs to %s and holds %s: %schoose another data_dir, "+
		"or, %s, set upstream.moved_from = %s",
		wanted, bound, strings.Join(held, ", "), first, same, bound)
}

// isCluster reports whether an identity is that of a bucket.
func isCluster(identity string) bool { return strings.HasPrefix(identity, "nats:") }

// readUpstream returns the recorded identity, or "" if there is none.
func readUpstream(dataDir string) (string, error) {
	name := filepath.Join(dataDir, upstreamFile)
	text, err := readSmall(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil && !errors.Is(err, errTooLarge) {
		return "", err
	}
	bound, ok := config.ParseIdentity(strings.TrimSpace(string(text)))
	if !ok {
		return "", fmt.Errorf("the file %s names no upstream (%.60q): it is damaged, and nobody knows whose entries the journal holds: "+
			"write into %s the URL of that upstream, as upstream.url had it", upstreamFile, strings.TrimSpace(string(text)), name)
	}
	return bound, nil
}

// writeUpstream records the identity of an upstream durably.
func writeUpstream(dataDir, upstream string) error {
	return writeDurably(filepath.Join(dataDir, upstreamFile), upstream)
}
