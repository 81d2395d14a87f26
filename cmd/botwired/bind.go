package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/binding"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/journal"
)

// bindUpstream makes sure that the journal belongs to the configured upstream before the daemon sends
// it any request. It binds an empty journal, or one without a recorded upstream, to the configured upstream.
func bindUpstream(c *config.Config, j *journal.Journal) error {
	wanted := c.Upstream.Identity()
	bound, err := binding.Check(c, j.Holdings)
	if err != nil || bound == wanted {
		return err
	}
	return binding.Write(c.DataDir, wanted)
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
		return m, cli.Usagef("--%s = %q: expected what upstream.url was before, or nats:BUCKET of a NATS cluster", binding.MovedFromFlag, former)
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
	bound, err := binding.Read(c.DataDir)
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
	return m, binding.Write(c.DataDir, m.To)
}

func printMove(w io.Writer, dir string, m move) error {
	_, err := fmt.Fprintf(w, "%s belongs to %s from now on, with %s\n", term.Printable(dir), m.To, binding.Held(journal.Holdings{Pending: m.Pending, DeadLetters: m.DeadLetters, Copies: m.Copies}))
	if err == nil && config.Service(m.From) != config.Service(m.To) {
		_, err = fmt.Fprintln(w, "That is another kind of service. Pending writes go to it, and the copies here count as copies of its entries.\n"+
			"botwired carries nothing else over: if the entries of the old one are to be there, export them from it,\n"+
			"and import them through a daemon with a new data_dir.")
	}
	return err
}
