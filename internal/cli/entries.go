package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

// maxInput limits a value read from standard input, in bytes. BotWire's longest value, 100,000 code
// points, fits ten times; the daemon rejects longer ones.
const maxInput = 4 << 20

func newGetCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get NAMESPACE KEY",
		Short:   "Print a value",
		GroupID: groupMemory,
		Example: "  botwired get my-agent user_name\n" +
			"  botwired get my-agent user_name --json | jq -r .etag",
		Long: "Print a value to the byte. On a terminal, control characters other than tabs and newlines\n" +
			"are shown as escapes such as \\x1b, and a newline follows. With --json, the etag is the tag that\n" +
			"set --if-match takes.",
		Args: arguments(2, 2),
	}
	asJSON := JSONFlag(cmd)
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		found, err := entry(ctx, c, args[0], args[1], api.Request{})
		if err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(p.Stdout, withTag(found.Body, wire.Tag(found.Header)))
		}
		var answer struct {
			Value *string `json:"value"`
		}
		if err := json.Unmarshal(found.Body, &answer); err != nil || answer.Value == nil {
			return errors.New("the answer holds no value: another program than botwired listens there")
		}
		if p.IsTerminal(p.Stdout) {
			*answer.Value = term.Harmless(*answer.Value) + "\n"
		}
		_, err = io.WriteString(p.Stdout, *answer.Value)
		return err
	})
	return cmd
}

func withTag(body []byte, etag string) []byte {
	object, isObject := bytes.CutSuffix(bytes.TrimSpace(body), []byte("}"))
	tag, err := json.Marshal(etag)
	if etag == "" || !isObject || err != nil {
		return body
	}
	return fmt.Appendf(nil, `%s,"etag":%s}`, object, tag)
}

func newSetCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set NAMESPACE KEY [VALUE|-]",
		Short:   "Write a value",
		GroupID: groupMemory,
		Example: "  botwired set my-agent user_name Ada\n" +
			"  botwired set my-agent notes < notes.txt\n" +
			"  botwired set my-agent user_name Ada --if-none-match '*'   # only a first value",
		Long: "Write a value. Without VALUE, or with -, botwired reads it from standard input, to the byte.\n" +
			"Put two dashes before a value that begins with one: botwired set NAMESPACE KEY -- -5\n\n" +
			"With --if-match, botwired writes only if the entry still has the tag that get --json has shown, and with\n" +
			"--if-none-match '*' only if there is no such entry. If not, it writes nothing and exits with 1.",
		Args: arguments(2, 3),
	}
	asJSON := JSONFlag(cmd)
	ifMatch := cmd.Flags().String("if-match", "", "write only if the entry has this tag")
	ifNoneMatch := cmd.Flags().String("if-none-match", "", "write only if the entry has not this tag, or with '*' if there is none")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		header := make(http.Header)
		for name, tag := range map[string]*string{"if-match": ifMatch, "if-none-match": ifNoneMatch} {
			// guard 5.13
			if cmd.Flags().Changed(name) { // even an empty one: it must not write without the condition
				quoted, err := quotedTag(name, *tag)
				if err != nil {
					return err
				}
				wire.SetGiven(header, name, quoted)
			}
		}
		value, err := valueFrom(args[2:], p.Stdin)
		if err != nil {
			return err
		}
		r := api.Request{Method: http.MethodPut, Header: header, Body: api.ValueBody(value)}
		answer, err := entry(ctx, c, args[0], args[1], r)
		if err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(p.Stdout, answer.Body)
		}
		_, err = fmt.Fprintf(p.Stdout, "stored %s, %s\n", term.Printable(entryID{args[0], args[1]}.String()), words.Plural(utf8.RuneCountInString(value), "character"))
		return err
	})
	return cmd
}

// bareTag is a tag of botwired's without its quotation marks.
var bareTag = regexp.MustCompile(`^(\d+|upstream)-[\w-]{16}`)

// quotedTag adds a tag's quotation marks, which a shell may have removed. A list of tags stays unchanged. It refuses
// what is no tag, such as the namespace in "set --if-none-match NAMESPACE KEY VALUE", which would change nothing.
func quotedTag(flag, tag string) (string, error) {
	switch {
	case tag == "*" || strings.Contains(tag, `"`):
		return tag, nil
	case bareTag.MatchString(tag):
		return `"` + tag + `"`, nil
	}
	return "", Usagef("--%s = %q: expected '*', or the etag that \"botwired get --json\" shows, such as 17-w0mNpUqJHwXoJ_Ww", flag, tag)
}

// valueFrom takes the value from the remaining arguments, or else from stdin. It rejects text that is
// not UTF-8: JSON cannot carry it unchanged.
func valueFrom(args []string, stdin io.Reader) (string, error) {
	value := ""
	if len(args) > 0 && args[0] != "-" {
		value = args[0]
	} else {
		content, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
		if err != nil {
			return "", fmt.Errorf("reading the value from standard input: %w", err)
		}
		value = string(content)
	}
	if len(value) > maxInput {
		return "", fmt.Errorf("the value is longer than %d bytes", maxInput)
	}
	if !utf8.ValidString(value) {
		return "", errors.New("the value is not UTF-8 text")
	}
	return value, nil
}

func newDeleteCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete NAMESPACE KEY",
		Short:   "Delete an entry",
		GroupID: groupMemory,
		Example: "  botwired delete my-agent user_name\n" +
			"  botwired delete my-agent user_name --json",
		Args: arguments(2, 2),
	}
	asJSON := JSONFlag(cmd)
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		answer, err := entry(ctx, c, args[0], args[1], api.Request{Method: http.MethodDelete})
		if err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(p.Stdout, answer.Body)
		}
		unknown := ""
		if strings.Contains(answer.Header.Get("Botwired-Write"), "assumed") {
			unknown = "; upstream could not be asked whether there was such an entry"
		}
		_, err = fmt.Fprintln(p.Stdout, "deleted "+term.Printable(entryID{args[0], args[1]}.String())+unknown)
		return err
	})
	return cmd
}

func entry(ctx context.Context, c *attach.Client, namespace, key string, r api.Request) (*api.Answer, error) {
	r.Path = api.Memory(namespace, key)
	answer, err := c.Do(ctx, r)
	if !api.IsRefused(err, http.StatusNotFound) {
		return answer, err
	}
	// With a slash, a name becomes another path, which BotWire does not know.
	if invalid := wire.CheckEntry(namespace, key); invalid != nil {
		return nil, &api.Refused{Status: invalid.Status, Body: invalid.Body}
	}
	if r.Method == http.MethodPut || !api.IsAbsent(err, namespace, key) {
		return nil, err
	}
	return nil, fmt.Errorf("key not found: %s", entryID{namespace, key})
}

func newListCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [NAMESPACE]",
		Short:   "List the namespaces, or the keys of one, newest first",
		GroupID: groupMemory,
		Long: "List the keys of a namespace, newest first, as BotWire lists them: the newest 1,000 at most. Without NAMESPACE,\n" +
			"list the namespaces in which the daemon knows entries; BYTES is what upstream's last list of each adds up to. With\n" +
			"--json, each is then a line of its own.\n\n" +
			"With --prefix, list all keys that begin with it of which the daemon knows anything, in their order, and say\n" +
			"which are pending; --prefix '' is for all keys. With --json, each is then a line of its own.",
		Example: "  botwired list\n" +
			"  botwired list my-agent\n" +
			"  botwired list my-agent --prefix user_",
		Args: arguments(0, 1),
	}
	asJSON := JSONFlag(cmd)
	limit := limitFlag(cmd, listedKeys, maxListedKeys)
	prefix := cmd.Flags().String("prefix", "", "list all known keys that begin with it, past BotWire's 1,000")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		most, err := limit()
		limited, prefixed := cmd.Flags().Changed("limit"), cmd.Flags().Changed("prefix")
		switch {
		case err != nil:
			return err
		case len(args) == 0 && (limited || prefixed):
			return Usagef("--limit and --prefix are for the keys of a namespace: expected NAMESPACE")
		case len(args) == 0:
			return p.listNamespaces(ctx, c, *asJSON)
		case prefixed && !limited:
			most = math.MaxInt
		}
		if prefixed {
			return p.listKnown(ctx, c, args[0], *prefix, most, *asJSON)
		}
		// BotWire would take a slash in the namespace for the separator before a key.
		if invalid := wire.CheckNamespace(args[0]); invalid != nil && strings.Contains(args[0], "/") {
			return &api.Refused{Status: invalid.Status, Body: invalid.Body}
		}
		r := api.Request{Path: api.Memory(args[0]), Query: url.Values{"limit": {strconv.Itoa(most)}}}
		listed, err := askFor(ctx, p, c, r, *asJSON, func(l *api.Listing) error { return printKeys(p.Screen(), l.Keys) })
		if err == nil {
			p.tellOfMore(len(listed.Keys), limited)
		}
		return err
	})
	return cmd
}

const (
	// listedKeys is how many keys BotWire lists by default, and maxListedKeys is its maximum.
	listedKeys    = 100
	maxListedKeys = 1000
)

// tellOfMore says on stderr that a list may be incomplete: it is as long as the default limit, or as
// BotWire's maximum.
func (p *Program) tellOfMore(n int, limited bool) {
	switch {
	case n >= maxListedKeys:
		fmt.Fprintf(p.Stderr, "these are the newest %d keys, and there may be more: BotWire lists no others\n", n)
	case n >= listedKeys && !limited:
		fmt.Fprintf(p.Stderr, "these are the newest %d keys, and there may be more: --limit %d lists as many\n", n, maxListedKeys)
	}
}

func printKeys(w io.Writer, keys []api.Listed) error {
	rows := make([][]string, 0, len(keys))
	for _, each := range keys {
		rows = append(rows, []string{keyname.Format(each.Key), strconv.Itoa(each.Bytes), term.Moment(w, term.Unix(each.UpdatedAt))})
	}
	return term.Table(w, []string{"KEY", "BYTES", "UPDATED"}, rows)
}

// limitFlag adds --limit. The returned function checks its value after the flags are parsed.
func limitFlag(cmd *cobra.Command, otherwise, most int) func() (int, error) {
	limit := cmd.Flags().Int("limit", otherwise, fmt.Sprintf("how many to print, from 1 to %d", most))
	return func() (int, error) {
		if *limit < 1 || *limit > most {
			return 0, Usagef("--limit = %d: expected a whole number from 1 to %d", *limit, most)
		}
		return *limit, nil
	}
}

const knownPage = 1000

// listKnown prints the entries of a namespace that the daemon knows, in key order. They may be more
// than BotWire lists. It prints each page when it arrives.
func (p *Program) listKnown(ctx context.Context, c *attach.Client, namespace, prefix string, most int, asJSON bool) error {
	if invalid := wire.CheckNamespace(namespace); invalid != nil {
		return &api.Refused{Status: invalid.Status, Body: invalid.Body}
	}
	printed, complete := 0, true
pages:
	for _, beginning := range keyname.Prefixes(prefix) {
		for page, err := range c.EntryPages(ctx, namespace, beginning, "", min(knownPage, most)) {
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(page.Entries, func(e api.Entry) bool { return !keyname.Begins(e.Key, prefix) })
			if shown := found[:min(len(found), most-printed)]; len(shown) > 0 {
				if err := p.printKnown(shown, printed == 0, asJSON); err != nil {
					return err
				}
				printed += len(shown)
			}
			complete = complete && page.Complete
			if printed == most {
				break pages
			}
		}
	}
	if printed == 0 {
		if err := p.printKnown(nil, true, asJSON); err != nil {
			return err
		}
	}
	if !complete {
		fmt.Fprintf(p.Stderr, "these are the keys that botwired knows, and upstream may have more: it has not listed all of %s\n", term.Printable(namespace))
	}
	return nil
}

func (p *Program) printKnown(entries []api.Entry, first, asJSON bool) error {
	var errs []error
	rows := make([][]string, 0, len(entries))
	for _, known := range entries {
		if asJSON {
			errs = append(errs, term.EncodeJSON(p.Stdout, known))
			continue
		}
		state := known.State
		if known.State == "pending" && known.Op == "delete" {
			state = "pending delete"
		}
		rows = append(rows, []string{keyname.Format(known.Key), strconv.Itoa(known.ListBytes), term.Plain(term.Unix(known.UpdatedAt)), state})
	}
	if asJSON {
		return errors.Join(errs...)
	}
	if first {
		return term.Table(p.Stdout, []string{"KEY", "BYTES", "UPDATED", "STATE"}, rows)
	}
	return term.Rows(p.Stdout, rows)
}

func (p *Program) listNamespaces(ctx context.Context, c *attach.Client, asJSON bool) error {
	known, err := c.Namespaces(ctx)
	var rows [][]string
	for i := range known {
		n := &known[i]
		if asJSON {
			err = errors.Join(err, term.EncodeJSON(p.Stdout, n))
		}
		entries := strconv.Itoa(n.Entries)
		if n.AtLeast {
			entries = "more than " + entries
		}
		rows = append(rows, []string{n.Namespace, entries, strconv.Itoa(n.Pending), strconv.FormatInt(n.Bytes, 10)})
	}
	if err != nil || asJSON {
		return err
	}
	return term.Table(p.Screen(), []string{"NAMESPACE", "ENTRIES", "PENDING", "BYTES"}, rows)
}
