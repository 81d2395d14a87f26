package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/words"
)

func newSealCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "seal",
		Short:   "Make keys of sealed namespaces, and see what is sealed with them",
		GroupID: GroupCare,
		Example: "  botwired seal keygen ~/.config/botwired/keys\n" +
			"  botwired seal status\n" +
			"  botwired seal adopt my-agent",
		Long: "A namespace with sealed: true is secret, authentic and hidden upstream. keygen makes the file of its keys, and\n" +
			"status says what upstream holds. adopt moves a plain namespace in, and rewrap seals with the newest key what an\n" +
			"older one has sealed.\n\n" +
			"These commands ask upstream themselves, with the settings of the daemon: run them as its user.",
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	settings.takesNone(cmd)
	cmd.AddCommand(newKeygenCommand(p, settings), newSealStatusCommand(p, settings), newAdoptCommand(p, settings), newRewrapCommand(p, settings))
	return cmd
}

func newKeygenCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "keygen FILE",
		Short:   "Make a key file",
		Example: "  botwired seal keygen ~/.config/botwired/keys\n  sudo -u botwired botwired seal keygen /etc/botwired/keys",
		Long: "Make a file with new keys for sealed namespaces, mode 0600. An existing file stays as it is. To rotate, make\n" +
			"a second file, turn the first word of the old line seal into open, and add the line seal of the new file.",
		Args: arguments(1, 1),
	}
	settings.takesNone(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		if err := writeNew(name, string(seal.Generate()), false); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists, and stays as it is: what its keys have sealed needs them. Name another FILE", name)
		} else if err != nil {
			return words.Unusable(err)
		}
		keys, err := seal.Load(name)
		if err != nil {
			return err
		}
		return term.Facts(p.Stdout, [][2]string{
			{"written", name},
			{"key", keys.ID()},
			{"back up", "this file, now: without it nobody can ever read what it seals, botwired included"},
			{"use", "seal.key_file: " + name + ", and sealed: true in an entry of namespaces; then restart the daemon"},
		})
	}
	return cmd
}

// sealing is what the commands about sealed namespaces work with.
type sealing struct {
	*Program
	config    *config.Config
	keys      *seal.Keys
	direct    *engines.Direct
	client    *attach.Client
	namespace string // "" for all
	sealed    *seal.Namespace
}

// sealCommand declares a command about sealed namespaces.
func (p *Program) sealCommand(settings *Settings, cmd *cobra.Command, run func(ctx context.Context, s *sealing) error) *cobra.Command {
	settings.Takes(cmd, AllSettings()...)
	HideSettings(cmd, "config", "seal.key_file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		loaded, err := settings.Load(nil)
		if err != nil {
			return err
		}
		s := &sealing{Program: p, config: &loaded.Config, namespace: strings.Join(args, "")}
		if s.keys, err = engines.Keys(s.config); err != nil {
			return err
		}
		if s.keys == nil {
			return errors.New(`no namespace is sealed: seal.key_file is not set; "botwired seal keygen FILE" makes a key file`)
		}
		if s.namespace != "" && !s.config.For(s.namespace).Sealed {
			return fmt.Errorf("%s is not sealed: give it sealed: true in an entry of namespaces, restart the daemon, and say this again", s.namespace)
		}
		if s.client, err = attach.Connect(loaded, build.Version()); err != nil {
			return err
		}
		if s.direct, err = engines.OpenDirect(cmd.Context(), s.config); err != nil {
			return err
		}
		defer s.direct.Close()
		s.sealed = s.keys.For(s.namespace)
		return run(cmd.Context(), s)
	}
	return cmd
}

func newSealStatusCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status [NAMESPACE]",
		Short:   "Count what upstream holds of sealed namespaces, by key",
		Example: "  botwired seal status\n  botwired seal status my-agent --json",
		Long: "Read every entry of the sealed namespaces upstream, and count them by the key that opens them: those that the\n" +
			"configuration names and those that the daemon knows, or the one given. An open key without entries may go, on\n" +
			"all hosts; what NATS keeps of older versions it then opens no more. What does not open is named with the reason.",
		Args: arguments(0, 1),
	}
	asJSON := JSONFlag(cmd)
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing) (err error) {
		names := []string{s.namespace}
		if s.namespace == "" {
			if names, err = s.client.SealedNamespaces(ctx, s.config); err != nil {
				return err
			}
		}
		all := make([]engines.Sealed, 0, len(names))
		for _, name := range names {
			x, err := s.direct.Examine(ctx, s.keys, name, math.MaxInt)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, x)
		}
		if *asJSON {
			return term.EncodeJSON(p.Stdout, map[string]any{"key": s.keys.ID(), "keys": s.keys.IDs(), "namespaces": all})
		}
		return s.printStatus(all)
	})
}

func (s *sealing) printStatus(all []engines.Sealed) error {
	var rows [][]string
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	byKey, whole := map[string]int{}, s.namespace == ""
	for i := range all {
		x := &all[i]
		for id, n := range x.ByKey {
			byKey[id] += n
		}
		closed := x.Names + len(x.Refused)
		for _, n := range x.Unknown {
			closed += n
		}
		notes = append(notes, x.NotOpened()...)
		if !x.Complete {
			note("%s: these are the newest entries: upstream lists no more", x.Namespace)
		}
		if x.Plain > 0 {
			note("%s: botwired seal adopt %s", x.PlainTwin(), x.Namespace)
		}
		whole = whole && x.Complete && closed == 0
		rows = append(rows, []string{x.Namespace, strconv.Itoa(x.Entries), strconv.Itoa(x.Entries - x.ByKey[s.keys.ID()]), strconv.Itoa(closed), strconv.Itoa(x.Plain), x.Hidden})
	}
	for i, id := range s.keys.IDs() {
		switch {
		case i == 0:
			note("key %s seals, and opens %s", id, words.Plural(byKey[id], "entry"))
		case byKey[id] == 0 && whole:
			note("key %s opens no entry: its line may go, on every host, once no host seals with it any more", id)
		default:
			note("key %s opens %s: botwired seal rewrap NAMESPACE seals them with the newest key", id, words.Plural(byKey[id], "entry"))
		}
	}
	err := term.Table(s.Stdout, []string{"NAMESPACE", "ENTRIES", "OLDER KEY", "NOT OPENED", "PLAIN", "NAME UPSTREAM"}, rows)
	for _, text := range notes {
		_, printErr := fmt.Fprintln(s.Stdout, term.Printable(text))
		err = errors.Join(err, printErr)
	}
	return err
}

// write writes an entry through the daemon: with its own value again if plain is nil, and otherwise with the
// plain one, unless the daemon has a later one. done is false if the entry stays or changes meanwhile.
func (s *sealing) write(ctx context.Context, key string, plain *api.Value) (done bool, err error) {
	var now api.Value
	r := api.Request{Path: api.Memory(s.namespace, key)}
	answer, err := s.client.Read(ctx, r, &now)
	r.Method = http.MethodPut
	switch {
	case api.IsRefused(err, http.StatusNotFound) && plain != nil:
		r.Header = http.Header{"If-None-Match": {"*"}}
	case api.IsRefused(err, http.StatusNotFound):
		return false, nil
	case err != nil:
		return false, err
	case plain != nil && now.UpdatedAt > plain.UpdatedAt && now.Value != plain.Value: // it waits to be sent
		return false, nil
	default:
		r.Header = http.Header{"If-Match": {answer.Header.Get("ETag")}}
	}
	if plain != nil {
		now.Value = plain.Value
	}
	r.Body = api.ValueBody(now.Value)
	_, err = s.client.Do(ctx, r)
	if api.IsRefused(err, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, err
}

func newRewrapCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rewrap NAMESPACE",
		Short:   "Seal with the newest key what an older one has sealed",
		Example: "  botwired seal rewrap my-agent\n  botwired seal rewrap my-agent && botwired flush",
		Long: "Write each entry of a sealed namespace again that an older key has sealed, with its value. These are ordinary\n" +
			"writes: durable here at once, sent as the quota allows. An entry that changes meanwhile is left: its new value\n" +
			"is sealed with the newest key anyway. If the command is interrupted, the same one does what is left.",
		Args: arguments(1, 1),
	}
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing) error {
		entries, written := 0, 0
		_, complete, err := s.direct.Walk(ctx, s.sealed, math.MaxInt, func(f *engines.Found) error {
			if f.Err == nil {
				entries++
			}
			if f.KeyID == "" || f.KeyID == s.keys.ID() { // it does not open, or needs nothing
				return nil
			}
			done, err := s.write(ctx, f.Key, nil)
			if done {
				written++
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s written again, and then: %w", words.Plural(written, "entry"), err)
		}
		more := ""
		if !complete {
			more = ". Upstream lists no more than these: once they are sent, say it again"
		}
		_, err = fmt.Fprintf(p.Stdout, "%s of %d written again, to be sealed with key %s%s\n", words.Plural(written, "entry"), entries, s.keys.ID(), more)
		return err
	})
}

func newAdoptCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "adopt NAMESPACE",
		Short:   "Move the entries of the plain namespace into the sealed one",
		Example: "  botwired seal adopt my-agent\n  botwired seal adopt my-agent --delete",
		Long: "Read each entry of the plain namespace upstream, and write it into the sealed one of the same name, through the\n" +
			"daemon. What the sealed one holds already stays. Entries that cannot be sealed, because of a key of more than 80\n" +
			"characters or a value too large, are named and left. If the command is interrupted, the same one does the rest.\n\n" +
			"The plain entries stay, for everybody to read, until you say --delete: that deletes each of which upstream held\n" +
			"a sealed copy as new before the command. Copies that others have made of them remain.",
		Args: arguments(1, 1),
	}
	remove := cmd.Flags().Bool("delete", false, "delete the plain entries that are sealed now")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing) error {
		if *remove && !*yes {
			if err := p.mayAsk(false, "deletes entries"); err != nil {
				return err
			}
			if err := p.Confirm(ctx, fmt.Sprintf("Delete the entries of the plain namespace %s upstream that are sealed? Hosts that do not seal it lose them.", s.namespace)); err != nil {
				return err
			}
		}
		return s.adopt(ctx, *remove)
	})
}

// adopt seals the plain entries that the sealed namespace lacks, and waits until upstream holds them. With remove,
// it deletes the plain entries that were sealed before.
func (s *sealing) adopt(ctx context.Context, remove bool) error {
	rows, complete, err := s.direct.List(ctx, s.namespace)
	if err != nil {
		return err
	}
	did, last := map[outcome]int{}, ""
	for _, row := range rows {
		done, err := s.adoptOne(ctx, row.Key, remove)
		if err != nil {
			return fmt.Errorf("%s written, %d deleted, and then %s: %w", words.Plural(did[written], "entry"), did[deleted], row.Key, err)
		}
		if did[done]++; done == written {
			last = row.Key
		}
	}
	fmt.Fprintf(s.Stdout, "%s written to be sealed, %d sealed already, %s deleted\n",
		words.Plural(did[written], "entry"), did[there]+did[deleted], words.Plural(did[deleted], "plain entry"))
	flushed, err := s.client.Flush(ctx, s.namespace, byHandTime, true)
	if err != nil {
		return err
	}
	if flushed.Pending > 0 {
		return fmt.Errorf("%s wait to be sent: botwired pending says why", words.Plural(flushed.Pending, "write"))
	}
	if last != "" { // guard 23.24
		if found, err := s.direct.Find(ctx, s.sealed, last); err != nil || found == nil || found.Err != nil {
			return errors.Join(fmt.Errorf("upstream holds no sealed %s: does the daemon seal %s? It does after a restart", last, s.namespace), err)
		}
	}
	if more := did[written] + did[there]; more > 0 || !complete {
		_, err = fmt.Fprintf(s.Stdout, "the plain entries are still upstream, for everybody to read: botwired seal adopt %s --delete\n", term.Printable(s.namespace))
	}
	return err
}

// outcome is what has become of a plain entry.
type outcome int

const (
	left    outcome = iota // it stays as it is
	there                  // it is sealed already
	written                // it waits to be sealed
	deleted
)

func (s *sealing) adoptOne(ctx context.Context, key string, remove bool) (outcome, error) {
	sealed, err := s.direct.Find(ctx, s.sealed, key)
	switch {
	case err != nil:
		return left, err
	case sealed != nil && sealed.Err != nil:
		return left, sealed.Err
	case sealed != nil && !remove:
		return there, nil
	}
	plain, err := s.direct.Get(ctx, s.namespace, key)
	switch {
	case err != nil || !plain.Present():
		return left, err
	case sealed == nil:
		done, err := s.write(ctx, key, &api.Value{Value: plain.Value, UpdatedAt: plain.WrittenAt})
		switch {
		case api.IsRefused(err, http.StatusBadRequest), api.IsRefused(err, http.StatusRequestEntityTooLarge):
			return s.leaves(key, err.Error())
		case done:
			return written, nil
		}
		return there, err
	case sealed.Value.Value != plain.Value && time.UnixMicro(sealed.Value.WrittenAt).Before(term.Unix(plain.WrittenAt)): // guard 23.25
		return s.leaves(key, "a program that does not seal has written it since")
	}
	return deleted, s.direct.Delete(ctx, s.namespace, key, plain)
}

// leaves says why a plain entry stays.
func (s *sealing) leaves(key, why string) (outcome, error) {
	_, err := fmt.Fprintln(s.Stdout, term.Printable("left: "+key+": "+why))
	return left, err
}
