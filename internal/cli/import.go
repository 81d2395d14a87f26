package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

func newImportCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import [FILE|-]",
		Short:   "Write the entries of an export",
		GroupID: groupMemory,
		Long: "Write the entries of a file that botwired export has made, or without FILE of standard input.\n\n" +
			"Each entry is written as of the time that it has in the file (updated_at), and gives way to what is newer, here\n" +
			"and upstream; without updated_at, to whatever is there. An entry that is there as in the file costs nothing. So an\n" +
			"import may be cut off anywhere: the same command does only what is left.\n\n" +
			"botwired reads the file twice, and looks through all of it first: if a line is no entry, or the file is cut off,\n" +
			"it imports nothing. With --partial it imports the complete lines of a file that is cut off, says if it left out\n" +
			"a last line that was cut in the middle, and exits with 0. Standard input, or a pipe, it holds in memory.\n" +
			"While the journal is full, or upstream takes no more, the import waits. What it has written is durable, and\n" +
			"goes upstream in the background: botwired flush waits for that.",
		Example: "  botwired import my-agent.jsonl\n" +
			"  botwired import --namespace copy-of-agent my-agent.jsonl\n" +
			"  gunzip -c backup.jsonl.gz | botwired import",
		Args: arguments(0, 1),
	}
	asJSON := JSONFlag(cmd)
	namespace := namespaceFlag(cmd, "write all entries into this namespace")
	partial := cmd.Flags().Bool("partial", false, "take a file without its last line: a cut-off one, or one that you have made. Of a line that is cut in the middle nothing is imported")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		x := &importing{Program: p, query: url.Values{}}
		if *namespace != "" {
			if invalid := wire.CheckNamespace(*namespace); invalid != nil {
				return &api.Refused{Status: invalid.Status, Body: invalid.Body}
			}
			x.query.Set("namespace", *namespace)
		}
		var err error
		if x.client, err = settings.connect(); err != nil {
			return err
		}
		file, name, err := p.openImport(args)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // nothing was written to it
		found, err := checkImport(file, *partial)
		if err != nil {
			return fmt.Errorf("%s: %w; nothing was imported", name, err)
		}
		if found.lacks != "" {
			fmt.Fprintf(p.Stderr, "%s may not be all there was when it was exported: %s\n", name, term.Printable(found.lacks))
		}
		if found.cut > 0 {
			fmt.Fprintf(p.Stderr, "%s is cut off in the middle of line %d: botwired imports the lines before it\n", name, found.cut)
		}
		x.entries = found.entries
		if _, err = file.Seek(0, io.SeekStart); err == nil {
			err = x.run(cmd.Context(), io.LimitReader(file, found.bytes))
		}
		x.ShowLine("")
		switch {
		case err != nil:
			return fmt.Errorf("the import has stopped after %d of %s, and the same command does the rest: %w",
				x.done.all(), words.Plural(x.entries, "entry"), err)
		case *asJSON:
			return term.EncodeJSON(p.Stdout, x.done)
		}
		_, err = fmt.Fprintf(p.Stdout, "%d written, %d there already, %d left out: what is there is not older\n",
			x.done.Written, x.done.Same, x.done.Older)
		return err
	}
	return cmd
}

// openImport opens the file to import. If it is not a regular file, it reads all of it into memory.
func (p *Program) openImport(args []string) (file io.ReadSeekCloser, name string, err error) {
	if len(args) == 0 || args[0] == "-" {
		if file, err = inMemory(p.Stdin); err != nil {
			err = fmt.Errorf("reading standard input: %w", err)
		}
		return file, "standard input", err
	}
	f, err := os.Open(args[0])
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, args[0], nil
		}
		if err == nil {
			file, err = inMemory(f)
		}
		_ = f.Close() // nothing was written to it
	}
	if err != nil {
		err = fmt.Errorf("%s: %s", args[0], words.Reason(err))
	}
	return file, args[0], err
}

func inMemory(r io.Reader) (io.ReadSeekCloser, error) {
	text, err := io.ReadAll(r)
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(text), io.NopCloser(nil)}, err
}

// linesOf yields the lines of a file, each with its line end and valid until the next one. After the
// last line it yields the error, if any: bufio.ErrBufferFull if a line is longer than any entry.
func linesOf(file io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(file, api.MaxLine+len("\r\n"))
		for {
			line, err := in.ReadSlice('\n')
			ends := errors.Is(err, io.EOF)
			if ends {
				err = nil
			}
			if (len(line) > 0 || err != nil) && !yield(line, err) || ends || err != nil {
				return
			}
		}
	}
}

type checked struct {
	entries int
	bytes   int64  // of the complete lines
	lacks   string // what the export's end lines say is missing
	cut     int    // the number of a last line that is cut in the middle, or 0
}

// checkImport checks a whole file. Every line must be an entry, or an end line for the entries before
// it. The last entry must be followed by an end line, unless partial is set: then the last line may
// also be cut in the middle.
func checkImport(file io.Reader, partial bool) (found checked, err error) {
	number, open, ended := 0, 0, partial // open counts the entries since the last end line
	for raw, err := range linesOf(file) {
		number++
		size, whole := len(raw), bytes.HasSuffix(raw, []byte{'\n'})
		raw = bytes.TrimSpace(raw)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || len(raw) > api.MaxLine:
			return checked{}, fmt.Errorf("line %d is longer than any entry", number)
		case err != nil:
			return checked{}, err
		case len(raw) == 0:
			found.bytes += int64(size)
			continue
		}
		line, err := api.ParseImportLine(raw)
		switch {
		case err != nil && partial && !whole:
			found.cut = number
			return found, nil
		case err != nil:
			return checked{}, fmt.Errorf("line %d: %w", number, err)
		}
		found.bytes += int64(size)
		switch {
		case line.End == nil:
			open++
			found.entries++
			continue
		case line.End.Entries != open && !partial:
			return checked{}, fmt.Errorf("line %d ends %s, and there are %d before it: some lines are missing, or are too many; --partial imports those that there are",
				number, words.Plural(line.End.Entries, "entry"), open)
		}
		open, ended = 0, true
		if !line.End.Complete {
			found.lacks = line.End.Namespace + ": " + line.End.Why
		}
	}
	switch {
	case !ended && number == 0:
		return checked{}, errors.New("it is empty")
	case (open > 0 || !ended) && !partial: // guard 9.33
		return checked{}, fmt.Errorf("it is cut off after line %d: its last line is none that ends an export; --partial imports what there is", number)
	}
	return found, nil
}

const (
	// importLines and importBytes limit a request of an import: short requests show progress.
	importLines = 200
	importBytes = 1 << 20
	// importPatience limits one request. The daemon works, or waits for upstream or room, for about 10
	// s, and then says why it waits.
	importPatience = 30 * time.Second
)

type importCounts struct {
	Written int `json:"written"`
	Same    int `json:"same"`
	Older   int `json:"older"`
}

func (n *importCounts) all() int { return n.Written + n.Same + n.Older }

type importing struct {
	*Program
	client  *attach.Client
	query   url.Values
	entries int // in the file
	done    importCounts
	told    bool // it has said that it waits, without a terminal
}

func (x *importing) run(ctx context.Context, file io.Reader) error {
	first, lines := 1, 0
	var part []byte
	for line, err := range linesOf(file) {
		if err != nil {
			return err
		}
		if lines == importLines || lines > 0 && len(part)+len(line) > importBytes {
			if err := x.send(ctx, part, first); err != nil {
				return err
			}
			first += lines
			part, lines = nil, 0 // the previous request may still hold the bytes
		}
		part = append(part, line...)
		lines++
	}
	if err := x.send(ctx, part, first); err != nil {
		return err
	}
	if x.done.all() != x.entries {
		return errors.New("the file has changed since botwired looked through it")
	}
	return nil
}

// send sends lines until all are done. first is the number of the first line in the file.
func (x *importing) send(ctx context.Context, text []byte, first int) error {
	for len(text) > 0 {
		r := api.Request{Method: http.MethodPost, Path: api.Surface("import"), Query: x.query, Body: text, Within: api.FirstByte + importPatience}
		var answer api.Imported
		read, err := x.client.Do(ctx, r)
		refused, isRefused := errors.AsType[*api.Refused](err)
		if isRefused {
			read = &api.Answer{Body: refused.Body}
		} else if err != nil {
			return err
		}
		lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\n'})
		isDone := json.Unmarshal(read.Body, &answer) == nil && answer.Lines >= answer.Written+answer.Same+answer.Older && answer.Lines <= len(lines)
		if !isDone || err == nil && answer.Lines < len(lines) {
			return cmp.Or(err, x.client.Foreign())
		}
		x.done.Written += answer.Written
		x.done.Same += answer.Same
		x.done.Older += answer.Older
		for _, line := range lines[:answer.Lines] {
			text = text[len(line):]
		}
		first += answer.Lines
		switch {
		case err == nil:
			text = nil
		case refused.Status == http.StatusRequestEntityTooLarge:
			return fmt.Errorf("line %d: %s", first, answer.Detail)
		case refused.Status != http.StatusServiceUnavailable && refused.Status != http.StatusInsufficientStorage:
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

// wait shows why the import waits, and waits for a tick. Without a terminal, it says why only once.
func (x *importing) wait(ctx context.Context, why string) error {
	if x.progress(why); !x.told && !x.IsTerminal(x.Stderr) {
		x.told = true
		fmt.Fprintln(x.Stderr, term.Printable(why))
	}
	tick, stop := x.Ticks()
	defer stop()
	select {
	case <-tick:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *importing) progress(why string) {
	line := fmt.Sprintf("%d of %s", x.done.all(), words.Plural(x.entries, "entry"))
	if why != "" {
		line += "; " + term.Printable(why)
	}
	x.ShowLine(line)
}
