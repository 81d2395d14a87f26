package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"slices"
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
	"github.com/botwired/botwired/internal/wire"
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
		Long: "A namespace with sealed: true is secret, authentic and hidden upstream. status, adopt and rewrap ask upstream\n" +
			"themselves, with the settings of the daemon: run them as its user.",
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
		Long:    "Make a file with new keys for sealed namespaces, mode 0600. An existing file stays as it is.",
		Args:    arguments(1, 1),
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
	loaded    *config.Loaded
	config    *config.Config
	keys      *seal.Keys
	direct    *engines.Direct
	client    *attach.Client
	namespace string // "" for all
	sealed    *seal.Namespace
	written   int // entries written through the daemon
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
		s := &sealing{Program: p, loaded: loaded, config: &loaded.Config, namespace: strings.Join(args, "")}
		if s.keys, err = engines.Keys(s.config); err != nil {
			return err
		}
		if s.keys == nil {
			return errors.New(`no namespace is sealed: seal.key_file is not set; "botwired seal keygen FILE" makes a key file`)
		}
		if s.namespace != "" && !s.config.For(s.namespace).Sealed {
			return fmt.Errorf("%s is not sealed (%s): give it sealed: true in an entry of namespaces, restart the daemon, and say this again",
				s.namespace, s.sealedBy(s.namespace))
		}
		if s.client, err = attach.Connect(loaded, build.Version(), p.tellOfDaemon); err != nil {
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
		Long: "Read every entry of the sealed namespaces that the configuration names or the daemon knows, or of the one given,\n" +
			"and count them by the key that opens them. An open key without entries may go, on all hosts; what NATS keeps of\n" +
			"older versions it then opens no more.",
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
			described := make([]sealedDocument, len(all))
			for i := range all {
				described[i] = sealedDocument{all[i], s.sealedBy(all[i].Namespace)}
			}
			return term.EncodeJSON(p.Stdout, map[string]any{"key": s.keys.ID(), "keys": s.keys.IDs(), "namespaces": described})
		}
		return s.printStatus(all)
	})
}

// sealedDocument is what is printed of a namespace as JSON.
type sealedDocument struct {
	engines.Sealed
	SealedBy string `json:"sealed_by"` // the source of its setting sealed
}

// sealedBy returns the source of a namespace's setting sealed.
func (s *sealing) sealedBy(namespace string) string {
	values := s.loaded.For(namespace)
	return values[slices.IndexFunc(values, func(v config.Value) bool { return v.Name == "sealed" })].Source.String()
}

func (s *sealing) printStatus(all []engines.Sealed) error {
	var rows [][]string
	var notes []string
	byKey, whole := map[string]int{}, s.namespace == ""
	for i := range all {
		x := &all[i]
		for id, opened := range x.Opened {
			byKey[id] += len(opened)
		}
		rows = append(rows, []string{x.Namespace, strconv.Itoa(x.Entries), strconv.Itoa(x.Entries - len(x.Opened[s.keys.ID()])), strconv.Itoa(x.Plain), x.Hidden})
		notes = append(notes, x.Namespace+": sealed by "+s.sealedBy(x.Namespace))
		notes = append(notes, x.Faults()...)
		if !x.Complete {
			notes = append(notes, x.Namespace+": these are the newest entries: upstream lists no more")
		}
		if x.Plain > 0 {
			notes = append(notes, x.PlainTwin()+": botwired seal adopt "+x.Namespace)
		}
		whole = whole && x.Complete && len(x.NotOpened) == 0
	}
	for i, id := range s.keys.IDs() {
		opens := "key " + id + " opens " + words.Plural(byKey[id], "entry")
		switch {
		case i == 0:
			opens += ", and seals"
		case byKey[id] == 0 && whole:
			opens = "key " + id + " opens no entry: its line may go, on every host, once no host seals with it any more"
		default:
			opens += ": botwired seal rewrap NAMESPACE seals them with the newest key"
		}
		notes = append(notes, opens)
	}
	err := term.Table(s.Stdout, []string{"NAMESPACE", "ENTRIES", "OLDER KEY", "PLAIN", "NAME UPSTREAM"}, rows)
	for _, text := range notes {
		_, printErr := fmt.Fprintln(s.Stdout, term.Printable(text))
		err = errors.Join(err, printErr)
	}
	return err
}

// write writes an entry through the daemon and counts it, unless it changes meanwhile: with the plain value, or with
// its own again if that is later.
func (s *sealing) write(ctx context.Context, key string, plain api.Value) error {
	var now api.Value
	r := api.Request{Path: api.Memory(s.namespace, key)}
	answer, err := s.client.Read(ctx, r, &now)
	switch absent := api.IsAbsent(err, s.namespace, key); {
	case absent && plain == (api.Value{}): // it was deleted
		return nil
	case absent:
		r.Header = http.Header{}
		wire.SetGiven(r.Header, "If-None-Match", "*")
	case err != nil:
		return err
	default:
		r.Header = http.Header{}
		wire.SetGiven(r.Header, "If-Match", wire.Tag(answer.Header))
	}
	if now.UpdatedAt <= plain.UpdatedAt {
		now.Value = plain.Value
	}
	r.Method, r.Body = http.MethodPut, api.ValueBody(now.Value)
	_, err = s.client.Do(ctx, r)
	switch {
	case err == nil:
		s.written++
	case api.IsRefused(err, http.StatusPreconditionFailed):
		return nil
	}
	return err
}

func newRewrapCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rewrap NAMESPACE",
		Short:   "Seal with the newest key what an older one has sealed",
		Example: "  botwired seal rewrap my-agent\n  botwired seal rewrap my-agent && botwired flush",
		Long:    "Write each entry again that an older key has sealed. These are ordinary writes, and sent as the quota allows.",
		Args:    arguments(1, 1),
	}
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing) error {
		x, err := s.direct.Examine(ctx, s.keys, s.namespace, math.MaxInt)
		if err != nil {
			return err
		}
		for _, id := range s.keys.IDs()[1:] {
			for _, key := range x.Opened[id] {
				if err := s.write(ctx, key, api.Value{}); err != nil {
					return fmt.Errorf("%s written again, and then: %w", words.Plural(s.written, "entry"), err)
				}
			}
		}
		more := ""
		if !x.Complete {
			more = ". Upstream lists no more than these: once they are sent, say it again"
		}
		_, err = fmt.Fprintf(p.Stdout, "%s of %d written again, to be sealed with key %s%s\n", words.Plural(s.written, "entry"), x.Entries, s.keys.ID(), more)
		return err
	})
}

func newAdoptCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "adopt NAMESPACE",
		Short:   "Move the entries of the plain namespace into the sealed one",
		Example: "  botwired seal adopt my-agent\n  botwired seal adopt my-agent --delete",
		Long: "Write each entry of the plain namespace upstream into the sealed one of the same name. What that holds already\n" +
			"stays. Entries that cannot be sealed are named and left. If the command is interrupted, the same one does the rest.\n\n" +
			"The plain entries stay, for everybody to read, until you say --delete: that deletes each of which upstream held\n" +
			"a sealed copy as new before the command.",
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
	there, deleted, last := 0, 0, ""
	for _, row := range rows {
		sealed, err := s.direct.Find(ctx, s.sealed, row.Key)
		if err != nil {
			return err
		}
		plain, err := s.direct.Get(ctx, s.namespace, row.Key)
		left := ""
		switch {
		case err != nil || !plain.Present():
		case sealed == nil:
			err = s.write(ctx, row.Key, api.Value{Value: plain.Value, UpdatedAt: plain.WrittenAt})
			if api.IsRefused(err, http.StatusBadRequest) || api.IsRefused(err, http.StatusRequestEntityTooLarge) {
				left, err = err.Error(), nil
			} else {
				last = row.Key
			}
		case sealed.Err != nil:
			left = sealed.Err.Error()
		case sealed.Value.Value != plain.Value && time.UnixMicro(sealed.Value.WrittenAt).Before(term.Unix(plain.WrittenAt)): // guard 23.25
			left = "a program that does not seal has written it since"
		default:
			if there++; remove {
				deleted++
				err = s.direct.Delete(ctx, s.namespace, row.Key, plain)
			}
		}
		if err != nil {
			return err
		}
		if left != "" {
			fmt.Fprintln(s.Stdout, term.Printable("left: "+row.Key+": "+left))
		}
	}
	fmt.Fprintf(s.Stdout, "%s written to be sealed, %d sealed already, %s deleted\n",
		words.Plural(s.written, "entry"), there, words.Plural(deleted, "plain entry"))
	flushed, err := s.client.Flush(ctx, s.namespace, byHandTime, true)
	switch {
	case err != nil:
		return err
	case flushed.Pending > 0:
		return fmt.Errorf("%s to be sent: botwired pending says why", words.Plural(flushed.Pending, "write")+words.ByNumber(flushed.Pending, " waits", " wait"))
	case last != "": // guard 23.24
		if found, err := s.direct.Find(ctx, s.sealed, last); err != nil || found == nil || found.Err != nil {
			return errors.Join(fmt.Errorf("upstream holds no sealed %s: does the daemon seal %s? It does after a restart", last, s.namespace), err)
		}
	}
	if last != "" || there > deleted || !complete {
		_, err = fmt.Fprintf(s.Stdout, "the plain entries are still upstream, for everybody to read: botwired seal adopt %s --delete\n", term.Printable(s.namespace))
	}
	return err
}
