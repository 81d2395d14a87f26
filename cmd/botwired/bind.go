package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
)

// upstreamFile holds, as text, the identity of the upstream that the journal belongs to. It is a
// separate file: an older botwired ignores it, and it stays valid when the journal is recovered.
const upstreamFile = "UPSTREAM"

// bindUpstream makes sure that the journal belongs to the configured upstream before the daemon sends
// it any request. Otherwise the daemon would send one service's pending writes to another, and answer
// for one from the other's copies. It binds an empty journal, or one without a recorded upstream, to
// the configured upstream.
func bindUpstream(c *config.Config, j *journal.Journal) error {
	wanted := c.Upstream.Identity()
	bound, err := readUpstream(c.DataDir)
	if err != nil || bound == wanted {
		return err
	}
	if bound != "" {
		h, err := j.Holdings()
		if err != nil {
			return err
		}
		if h != (journal.Holdings{}) {
			return otherUpstream(c, bound, h) // guard 13.18
		}
	}
	return writeUpstream(c.DataDir, wanted)
}

func otherUpstream(c *config.Config, bound string, h journal.Holdings) error {
	wanted := c.Upstream.Identity()
	first := ""
	if h.Pending > 0 {
		first = "flush with upstream.url = " + bound + " first, then "
	}
	same := "if the same service has a new address"
	if bound == config.Embedded { // most likely a trial: its entries do not belong in another service
		same = "if botwired selfhost now serves the memory.db in it"
	}
	if config.Service(bound) != config.Service(wanted) {
		same = "if the memory has been carried over"
	}
	return fmt.Errorf("upstream.url is %s, but the directory belongs to %s and holds %s: %schoose another data_dir, "+
		"or, %s, say so once: %s", wanted, bound, held(h), first, same, saysMoved(c, bound))
}

func held(h journal.Holdings) string {
	all := []string{words.Plural(h.Pending, "pending write"), words.Plural(h.DeadLetters, "dead letter")}
	if h.Copies {
		all = append(all, "copies of its entries")
	}
	return strings.Join(all, ", ")
}

// saysMoved returns the command that tells botwired that the directory's upstream now has the
// configured address. The command needs no configuration file.
func saysMoved(c *config.Config, bound string) string {
	line := "botwired recover --data-dir " + attach.ShellWord(c.DataDir) + " --upstream-url " + attach.ShellWord(c.Upstream.URL)
	if c.Upstream.IsBucket() {
		line += " --" + config.FlagName(config.BucketSetting) + " " + attach.ShellWord(c.Upstream.NATS.Bucket)
	}
	return line + " --" + movedFromFlag + " " + attach.ShellWord(bound)
}

type move struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Pending     int    `json:"pending"`
	DeadLetters int    `json:"dead_letters"`
	Copies      bool   `json:"copies"`
}

// moveUpstream records that the directory's upstream has moved from former to the configured address.
// No daemon may use the directory meanwhile.
func moveUpstream(c *config.Config, former string) (m move, err error) {
	from, isOne := config.ParseIdentity(former)
	if !isOne {
		return m, cli.Usagef("--%s = %q: expected what upstream.url was before, or nats:BUCKET of a NATS cluster", movedFromFlag, former)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, journalDir)); err != nil {
		return m, err
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(c.DataDir, journalDir)})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	m = move{From: from, To: c.Upstream.Identity()}
	bound, err := readUpstream(c.DataDir)
	switch {
	case err != nil:
		return m, err
	case bound != m.From && bound != m.To: // guard 13.20
		return m, fmt.Errorf("the directory belongs to %s, and not to %s: nothing is changed", cmp.Or(bound, "no upstream yet"), m.From)
	}
	h, err := j.Holdings()
	if err != nil {
		return m, err
	}
	m.Pending, m.DeadLetters, m.Copies = h.Pending, h.DeadLetters, h.Copies
	return m, writeUpstream(c.DataDir, m.To)
}

func printMove(w io.Writer, dir string, m move) error {
	_, err := fmt.Fprintf(w, "%s belongs to %s from now on, with %s\n", term.Printable(dir), m.To, held(journal.Holdings{Pending: m.Pending, DeadLetters: m.DeadLetters, Copies: m.Copies}))
	if err == nil && config.Service(m.From) != config.Service(m.To) {
		_, err = fmt.Fprintln(w, "That is another kind of service. Pending writes go to it, and the copies here count as copies of its entries.\n"+
			"botwired carries nothing else over: if the entries of the old one are to be there, export them from it,\n"+
			"and import them through a daemon with a new data_dir.")
	}
	return err
}

// readUpstream returns the recorded identity, or "" if there is none.
func readUpstream(dataDir string) (string, error) {
	name := filepath.Join(dataDir, upstreamFile)
	text, _, err := identity.ReadText(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil && !errors.Is(err, identity.ErrForeign) {
		return "", err
	}
	bound, ok := config.ParseIdentity(strings.TrimSpace(string(text)))
	if !ok { // guard 13.21
		return "", fmt.Errorf("the file %s names no upstream (%.60q): it is damaged, and nobody knows whose entries the journal holds: "+
			"write into %s the URL of that upstream, as upstream.url had it", upstreamFile, strings.TrimSpace(string(text)), name)
	}
	return bound, nil
}

func writeUpstream(dataDir, upstream string) error {
	return identity.WriteLine(filepath.Join(dataDir, upstreamFile), upstream)
}
