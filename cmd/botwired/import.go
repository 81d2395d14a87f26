package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/wire"
)

func newImportCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import [FILE|-]",
		Short:   "Write the entries of an export",
		GroupID: groupMemory,
		Long: "Write the entries of a file that botwired export has made, or without FILE of standard input.\n\n" +
			"Each entry is written as of the time that it has in the file (updated_at), and gives way to what is newer, here\n" +
			"and upstream; without updated_at, to whatever is there. An entry that is there as in the file costs nothing. So an\n" +
			"import may be cut off anywhere: the same command does only what is left.\n\n" +
			"botwired looks through the whole file first. If a line is no entry, or the file is cut off, it imports nothing.\n" +
			"While the journal is full, or upstream takes no more, the import waits. What it has written is durable, and\n" +
			"goes upstream in the background: botwired flush waits for that.",
		Example: "  botwired import --dry-run my-agent.jsonl   # what would happen\n" +
			"  botwired import my-agent.jsonl\n" +
			"  botwired import --namespace copy-of-agent my-agent.jsonl\n" +
			"  gunzip -c backup.jsonl.gz | botwired import",
		Args: arguments(0, 1),
	}
	asJSON := jsonFlag(cmd)
	namespace := namespaceFlag(cmd, "write all entries into this namespace")
	dry := cmd.Flags().Bool("dry-run", false, "write nothing, and say what would become of the entries")
	partial := cmd.Flags().Bool("partial", false, "take a file without its last line: a cut-off one, or one that you have made")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if invalid := checkGiven(*namespace); invalid != nil {
			return invalid
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		file, name, err := p.openImport(args)
		if err != nil {
			return err
		}
		defer file.Close()
		x := &importing{process: p, client: c, query: url.Values{}, dry: *dry}
		var lacks string
		if x.entries, lacks, err = checkImport(file, *partial); err != nil {
			return fmt.Errorf("%s: %w; nothing was imported", name, err)
		}
		if lacks != "" {
			fmt.Fprintf(p.stderr, "%s may not be all there was when it was exported: %s\n", name, printable(lacks))
		}
		if *namespace != "" {
			x.query.Set("namespace", *namespace)
		}
		if *dry {
			x.query.Set("dry_run", "true")
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err = x.run(cmd.Context(), file)
		x.clearLine()
		if err != nil {
			return x.stopped(err)
		}
		if *asJSON {
			return encodeJSON(p.stdout, x.done)
		}
		return x.print()
	}
	return cmd
}

func checkGiven(namespace string) error {
	if namespace == "" {
		return nil
	}
	if invalid := wire.CheckNamespace(namespace); invalid != nil {
		return &statusError{status: invalid.Status, body: invalid.Body}
	}
	return nil
}

// openImport opens the file to be imported. It keeps standard input in a file that nobody else can
// open, as it is read twice.
func (p *process) openImport(args []string) (file io.ReadSeekCloser, name string, err error) {
	if len(args) > 0 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return nil, "", fmt.Errorf("%s: %s", args[0], reason(err))
		}
		return file, args[0], nil
	}
	kept, err := os.CreateTemp("", "botwired-import-*")
	if err != nil {
		return nil, "", fmt.Errorf("standard input is kept in a file meanwhile: %s", reason(err))
	}
	s := &spooled{kept}
	if _, err = io.Copy(kept, p.stdin); err == nil {
		_, err = kept.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("reading standard input: %w", err), s.Close())
	}
	return s, "standard input", nil
}

// spooled is a file that is removed when it is closed.
type spooled struct{ *os.File }

func (s *spooled) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }

const (
	// importLines and importBytes bound a request of an import: short ones show progress.
	importLines = 200
	importBytes = 1 << 20
)

// importCounts say what has become of entries.
type importCounts struct {
	New     int `json:"new"`
	Newer   int `json:"newer"`
	Unknown int `json:"unknown"`
	Same    int `json:"same"`
	Older   int `json:"older"`
}

func (n *importCounts) all() int { return n.New + n.Newer + n.Unknown + n.Same + n.Older }

// importing is an import under way.
type importing struct {
	*process
	client  *client
	query   url.Values
	dry     bool
	entries int // of the file
	done    importCounts
	shown   bool // the line on the terminal
	told    bool // that it waits, where there is none
}

// run sends the file in parts.
func (x *importing) run(ctx context.Context, file io.Reader) error {
	var part bytes.Buffer
	lines, first := 0, 1
	flush := func() error {
		err := x.send(ctx, part.Bytes(), first)
		first += lines
		lines = 0
		part.Reset()
		return err
	}
	scanner := newLineScanner(file)
	for scanner.Scan() {
		if lines == importLines || lines > 0 && part.Len()+len(scanner.Bytes()) > importBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		part.Write(scanner.Bytes())
		part.WriteByte('\n')
		lines++
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	return flush()
}

// importAnswer is the daemon's.
type importAnswer struct {
	importCounts
	Lines  int    `json:"lines"`
	Detail string `json:"detail"`
}

// send sends lines until all of them are done. Their numbers in the file begin with first.
func (x *importing) send(ctx context.Context, lines []byte, first int) error {
	for len(lines) > 0 {
		r := request{
			method: http.MethodPost, path: surface("import"), query: x.query, body: lines, patience: importPatience,
		}
		body, err := x.client.do(ctx, r)
		var refused *statusError
		if errors.As(err, &refused) {
			body = refused.body
		} else if err != nil {
			return err
		}
		var answer importAnswer
		isDone := json.Unmarshal(body, &answer) == nil && answer.Lines >= answer.all() && answer.Lines <= bytes.Count(lines, []byte{'\n'})
		if !isDone || err == nil && answer.Lines < bytes.Count(lines, []byte{'\n'}) {
			return cmp.Or(err, x.client.foreign())
		}
		x.add(answer.importCounts)
		lines = afterLines(lines, answer.Lines)
		first += answer.Lines
		switch {
		case err == nil:
			lines = nil
		case refused.status == http.StatusRequestEntityTooLarge:
			return fmt.Errorf("line %d: %s", first, answer.Detail)
		case refused.status != http.StatusServiceUnavailable && refused.status != http.StatusInsufficientStorage:
			return err
		default:
			if err := x.wait(ctx, answer.Detail); err != nil {
				return err
			}
		}
		x.progress("")
	}
	return nil
}

// importPatience is how long the daemon may take for one request: it waits for upstream and for
// room.
const importPatience = 40 * time.Second

func (x *importing) add(n importCounts) {
	x.done.New += n.New
	x.done.Newer += n.Newer
	x.done.Unknown += n.Unknown
	x.done.Same += n.Same
	x.done.Older += n.Older
}

// afterLines is the text behind its first n lines.
func afterLines(text []byte, n int) []byte {
	for ; n > 0 && len(text) > 0; n-- {
		if _, rest, found := bytes.Cut(text, []byte{'\n'}); found {
			text = rest
		} else {
			text = nil
		}
	}
	return text
}

// wait shows why the import waits, and waits for a moment. Where there is no terminal, it says so
// once.
func (x *importing) wait(ctx context.Context, why string) error {
	if x.progress(why); !x.told && !x.shown {
		x.told = true
		fmt.Fprintln(x.stderr, printable(why))
	}
	tick, stop := x.ticks()
	defer stop()
	select {
	case <-tick:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// progress keeps a line on the terminal. Where there is no terminal it shows nothing.
func (x *importing) progress(why string) {
	if !x.isTerminal(x.stderr) {
		return
	}
	x.shown = true
	line := fmt.Sprintf("%d of %s", x.done.all(), plural(x.entries, "entry"))
	if why != "" {
		line += "; " + printable(why)
	}
	x.showLine(line)
}

func (x *importing) clearLine() {
	if x.shown {
		x.showLine("")
	}
}

// stopped says how far the import has come.
func (x *importing) stopped(err error) error {
	if x.dry {
		return err
	}
	return fmt.Errorf("the import has stopped after %d of %s, and the same command does the rest: %w",
		x.done.all(), plural(x.entries, "entry"), err)
}

// print says what has become of the entries.
func (x *importing) print() error {
	n := &x.done
	would := ""
	if x.dry {
		would = "would be "
	}
	rows := [][]string{
		{strconv.Itoa(n.New), would + "written: there is no such entry"},
		{strconv.Itoa(n.Newer), would + "written: what is there is older"},
		{strconv.Itoa(n.Unknown), would + "written: upstream cannot be asked now, and the later one wins when it can"},
		{strconv.Itoa(n.Same), "there already"},
		{strconv.Itoa(n.Older), "left out: what is there is not older"},
	}
	kept := rows[:0]
	for _, row := range rows {
		if row[0] != "0" {
			kept = append(kept, row)
		}
	}
	if len(kept) == 0 {
		_, err := fmt.Fprintln(x.stdout, "the file has no entries")
		return err
	}
	return printTable(x.stdout, []string{"ENTRIES", "WHAT BECOMES OF THEM"}, kept)
}
