package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/journal"
)

const (
	// upstreamFile holds, in clear, the identity of the upstream that the journal
	// beside it is of. It stands outside of the journal: an older botwired does not
	// mind it, and a recovered journal is still of the same upstream.
	upstreamFile = "UPSTREAM"
	// upstreamFileLimit bounds what is read of it, in bytes.
	upstreamFileLimit = 4 << 10
)

// bindUpstream makes sure that the journal is of the configured upstream, before that
// is asked anything: else the pending writes of one service would be sent to another,
// and the copies of one be answered as the other's. A journal with nothing in it, or
// of a botwired that did not record its upstream, becomes the configured one's.
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

// otherUpstream says what is at stake and what can be done.
func otherUpstream(bound, wanted string, h journal.Holdings) error {
	held := []string{plural(h.Pending, "pending write"), plural(h.DeadLetters, "dead letter")}
	if h.Copies {
		held = append(held, "copies of its entries")
	}
	first := ""
	if h.Pending > 0 {
		first = "flush with upstream.url = " + bound + " first, then "
	}
	return fmt.Errorf("upstream.url is %s, and what it holds is of %s: %s; %schoose another data_dir, "+
		"or set upstream.moved_from = %s if that is the same service under a new address",
		wanted, bound, strings.Join(held, ", "), first, bound)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// readUpstream is the recorded identity, "" if there is none.
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
	bound := strings.TrimSpace(string(text))
	if bound == "" || strings.ContainsFunc(bound, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the file %s does not say of which upstream the journal is: write that URL into it", upstreamFile)
	}
	return bound, nil
}

// writeUpstream records an identity, durably: a power cut leaves this one or the one
// before.
func writeUpstream(dataDir, identity string) error {
	name := filepath.Join(dataDir, upstreamFile)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, identity)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDirectory(dataDir)
}

// syncDirectory makes the names in a directory durable, where that can be asked for.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
