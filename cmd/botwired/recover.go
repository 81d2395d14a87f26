package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/binding"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
)

func newRecoverCommand(p *cli.Program, settings *cli.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recover",
		Short:   "Repair a damaged journal, or say once that upstream has a new address",
		GroupID: cli.GroupCare,
		Example: "  botwired recover\n" +
			"  botwired recover --data-dir /var/lib/botwired --json\n" +
			"  botwired recover --moved-from https://old.example",
		Long: `Repair a damaged journal, or say once that upstream has a new address.

recover puts every record that is intact into a new journal, and keeps the damaged
directory beside it. The next daemon looks at upstream before it sends a pending
write again. recover leaves a sound journal as it is. While it works, it needs up to
twice the room of the journal on the disk, besides the journal itself.

The report is also kept beside the damaged directory, as a file that ends in .json.

The exit code is 0 when no pending write and no dead letter is missing, 3 when one
is or may be, and 1 when recover failed and changed nothing. Lost copies and receipts
do not count.

With --moved-from, recover repairs nothing. A data directory belongs to one upstream,
and a daemon refuses it in front of another. --moved-from says that the upstream of
the directory, which it names, has the address that upstream.url says now: what the
directory holds of it stays, and its pending writes go to the new address.`,
		Args: cli.NoArguments,
	}
	settings.Takes(cmd, "data_dir", "upstream.url", config.BucketSetting)
	asJSON := cli.JSONFlag(cmd)
	former := cmd.Flags().String(binding.MovedFromFlag, "", "the former `URL` of upstream, if the same service has a new address")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keepFilesPrivate() // guard 21.14
		loaded, err := settings.LoadWithDataDir(nil)
		if err != nil {
			return err
		}
		dir := loaded.Config.DataDir
		if cmd.Flags().Changed(binding.MovedFromFlag) {
			m, err := moveUpstream(&loaded.Config, *former)
			switch {
			case err != nil:
				return notRecovered(dir, err)
			case *asJSON:
				return term.EncodeJSON(p.Stdout, m)
			}
			return printMove(p.Stdout, dir, m)
		}
		progress := func(read, of int) { p.ShowLine(fmt.Sprintf("%d of %d files read", read, of)) }
		r, err := journal.Recover(journal.RecoverOptions{Dir: filepath.Join(dir, journalDir), Now: time.Now(), Progress: progress})
		p.ShowLine("")
		if err != nil {
			return notRecovered(dir, err)
		}
		if *asJSON {
			err = term.EncodeJSON(p.Stdout, r)
		} else {
			err = printRecovery(p.Screen(), r)
		}
		if err == nil && !r.Complete() {
			return &term.Exit{Code: cli.ExitMissing, Err: fmt.Errorf("not everything could be salvaged: the damaged journal is kept in %s", r.Copy)}
		}
		return err
	}
	return cmd
}

func notRecovered(dir string, err error) error {
	switch {
	case errors.As(err, new(*cli.UsageError)):
		return err
	case errors.Is(err, journal.ErrInUse):
		return fmt.Errorf("data_dir = %q: a running botwired uses it: stop it first", dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data_dir = %q: there is no journal in it", dir)
	}
	return fmt.Errorf("data_dir = %q: %w", dir, words.Unusable(err))
}

func printRecovery(w io.Writer, r *journal.Recovery) error {
	if r.Healthy {
		_, err := fmt.Fprintln(w, "the journal is sound; nothing was changed")
		return err
	}
	facts := [][2]string{{"found", r.Found}, {"damaged copy", r.Copy}, {"next write", strconv.FormatUint(r.NextSeq, 10)}}
	if err := term.Facts(w, facts); err != nil {
		return err
	}
	fmt.Fprintln(w)
	m := &r.Missing
	pending, dead := "unknown", "unknown"
	if m.Known {
		pending, dead = atLeast(m.Pending, m.Differs), atLeast(m.DeadLetters, m.Differs)
	}
	listings, copies := "0", "0"
	if m.CopiesCut {
		copies = "asked of upstream anew"
	}
	if m.ListingsCut {
		listings = "asked of upstream anew"
	}
	rows := [][]string{
		{"pending writes", strconv.Itoa(r.Salvaged.Pending), pending},
		{"dead letters", strconv.Itoa(r.Salvaged.DeadLetters), dead},
		{"settled copies", strconv.Itoa(r.Salvaged.Settled), copies},
		{"listings", strconv.Itoa(r.Salvaged.Listings), listings},
		{"receipts", strconv.Itoa(r.Salvaged.Receipts), "unknown"},
	}
	if err := term.Table(w, []string{"RECORDS", "SALVAGED", "MISSING"}, rows); err != nil {
		return err
	}
	return printLost(w, m)
}

// atLeast formats how many records are missing. If the recovered journal differs from the original,
// records that came back may hide missing ones in the count.
func atLeast(n int, differs bool) string {
	switch {
	case n == 0 && differs:
		return "unknown"
	case n == 0:
		return "0"
	}
	return "at least " + strconv.Itoa(n)
}

func printLost(w io.Writer, m *journal.Missing) error {
	var rows [][]string
	if m.LastSeq != 0 {
		rows = append(rows, []string{"writes", fmt.Sprintf("%d to %d: nothing is known of them", m.FirstSeq, m.LastSeq)})
	}
	if m.Differs {
		rows = append(rows, []string{"writes", "it is not known which: some that are counted as salvaged may have settled or died before, and are pending again"})
	}
	if m.Changes != 0 {
		rows = append(rows, []string{"changes", fmt.Sprintf("the last ones (%d): writes that had settled or died may be pending again", m.Changes)})
	}
	for _, r := range m.Records {
		rows = append(rows, []string{"damaged", r})
	}
	for _, f := range m.Files {
		rows = append(rows, []string{"file", strings.TrimSpace(f)})
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return term.Table(w, []string{"LOST", "WHAT IS KNOWN"}, rows)
}
