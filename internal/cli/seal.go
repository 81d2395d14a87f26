package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
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
	config *config.Config
	keys   *seal.Keys
	direct *engines.Direct
	client *attach.Client
}

// openSealing opens the keys and upstream for a command about a namespace; "" for all.
func (p *Program) openSealing(ctx context.Context, settings *Settings, namespace string) (*sealing, error) {
	loaded, err := settings.Load(nil)
	if err != nil {
		return nil, err
	}
	s := &sealing{Program: p, config: &loaded.Config}
	if s.config.Seal.KeyFile == "" {
		return nil, errors.New(`no namespace is sealed: seal.key_file is not set; "botwired seal keygen FILE" makes a key file`)
	}
	if namespace != "" && !s.config.For(namespace).Sealed {
		return nil, fmt.Errorf("%s is not sealed: give it sealed: true in an entry of namespaces, restart the daemon, and say this again", namespace)
	}
	if s.keys, err = seal.Load(s.config.Seal.KeyFile); err != nil {
		return nil, fmt.Errorf("seal.key_file: %w", err)
	}
	if s.client, err = attach.Connect(loaded, build.Version()); err != nil {
		return nil, err
	}
	s.direct, err = engines.OpenDirect(ctx, s.config)
	return s, err
}

// sealCommand declares a command about sealed namespaces.
func (p *Program) sealCommand(settings *Settings, cmd *cobra.Command, run func(ctx context.Context, s *sealing, args []string) error) *cobra.Command {
	settings.Takes(cmd, AllSettings()...)
	HideSettings(cmd, "config", "seal.key_file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace := ""
		if len(args) > 0 {
			namespace = args[0]
		}
		s, err := p.openSealing(cmd.Context(), settings, namespace)
		if err != nil {
			return err
		}
		defer s.direct.Close()
		return run(cmd.Context(), s, args)
	}
	return cmd
}

// sealedStatus is the state of a sealed namespace, for --json.
type sealedStatus struct {
	Namespace string         `json:"namespace"`
	Hidden    string         `json:"hidden"` // its name upstream
	Entries   int            `json:"entries"`
	ByKey     map[string]int `json:"by_key"`
	Unknown   map[string]int `json:"unknown_keys"`
	Names     int            `json:"names_not_opened"`
	Refused   []string       `json:"refused"`
	Complete  bool           `json:"complete"`
	Plain     int            `json:"plain"` // entries of the namespace that is not sealed
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
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing, args []string) error {
		names := args
		if len(args) == 0 {
			var err error
			if names, err = s.namespaces(ctx); err != nil {
				return err
			}
		}
		all := make([]sealedStatus, 0, len(names))
		for _, name := range names {
			n := s.keys.For(name)
			x, err := s.direct.Examine(ctx, n, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			plain, _, err := s.direct.List(ctx, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, sealedStatus{
				name, n.Name(), x.Entries, x.ByKey, x.Unknown, x.Names, append([]string{}, x.Refused...), x.Complete, len(plain),
			})
		}
		if *asJSON {
			return term.EncodeJSON(p.Stdout, map[string]any{"key": s.keys.ID(), "keys": s.keys.IDs(), "namespaces": all})
		}
		return s.printStatus(all, len(args) == 0)
	})
}

// namespaces returns the sealed namespaces that the configuration names or the daemon knows.
func (s *sealing) namespaces(ctx context.Context) (names []string, err error) {
	for _, o := range s.config.Namespaces {
		if !strings.ContainsAny(o.Match, `*?[\`) && s.config.For(o.Match).Sealed {
			names = append(names, o.Match)
		}
	}
	query := url.Values{"limit": {strconv.Itoa(knownPage)}}
	for {
		var page api.Namespaces
		if _, err := s.client.Read(ctx, api.Request{Path: api.Surface("namespaces"), Query: query}, &page); err != nil {
			return nil, err
		}
		for i := range page.Namespaces {
			if name := page.Namespaces[i].Namespace; s.config.For(name).Sealed {
				names = append(names, name)
			}
		}
		if page.Next == nil {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		query.Set("after", *page.Next)
	}
}

func (s *sealing) printStatus(all []sealedStatus, whole bool) error {
	var rows [][]string
	byKey := map[string]int{}
	for i := range all {
		x := &all[i]
		for id, n := range x.ByKey {
			byKey[id] += n
		}
		closed := x.Names + len(x.Refused)
		for _, n := range x.Unknown {
			closed += n
		}
		whole = whole && x.Complete && closed == 0
		rows = append(rows, []string{x.Namespace, strconv.Itoa(x.Entries), strconv.Itoa(x.Entries - x.ByKey[s.keys.ID()]), strconv.Itoa(closed), strconv.Itoa(x.Plain), x.Hidden})
	}
	err := term.Table(s.Stdout, []string{"NAMESPACE", "ENTRIES", "OLDER KEY", "NOT OPENED", "PLAIN", "NAME UPSTREAM"}, rows)
	say := func(format string, args ...any) {
		_, printErr := fmt.Fprintln(s.Stdout, term.Printable(fmt.Sprintf(format, args...)))
		err = errors.Join(err, printErr)
	}
	for i := range all {
		x := &all[i]
		for _, id := range slices.Sorted(maps.Keys(x.Unknown)) {
			say("%s: %s sealed with key %s, which is not in %s: bring the line from the host that has it", x.Namespace, words.Plural(x.Unknown[id], "entry"), id, s.config.Seal.KeyFile)
		}
		if x.Names > 0 {
			say("%s: %s that no key opens: somebody else has written there, or with another name key", x.Namespace, words.Plural(x.Names, "name"))
		}
		for _, refused := range x.Refused {
			say("%s/%s", x.Namespace, refused)
		}
		if !x.Complete {
			say("%s: these are the newest entries: upstream lists no more", x.Namespace)
		}
		if x.Plain > 0 {
			say("%s: %s in the plain namespace, for everybody to read: botwired seal adopt %s", x.Namespace, words.Plural(x.Plain, "entry"), x.Namespace)
		}
	}
	for i, id := range s.keys.IDs() {
		switch {
		case i == 0:
			say("key %s seals, and opens %s", id, words.Plural(byKey[id], "entry"))
		case byKey[id] == 0 && whole:
			say("key %s opens no entry: its line may go, on every host, once no host seals with it any more", id)
		default:
			say("key %s opens %s: botwired seal rewrap NAMESPACE seals them with the newest key", id, words.Plural(byKey[id], "entry"))
		}
	}
	return err
}

// held is an entry as the daemon has it.
type held struct {
	api.Value
	tag string
}

// get reads an entry from the daemon; nil if there is none.
func (s *sealing) get(ctx context.Context, namespace, key string) (*held, error) {
	h := &held{}
	answer, err := s.client.Read(ctx, api.Request{Path: api.Memory(namespace, key)}, &h.Value)
	if api.IsRefused(err, http.StatusNotFound) {
		return nil, nil
	}
	if err == nil {
		h.tag = answer.Header.Get("ETag")
	}
	return h, err
}

// put writes an entry through the daemon over what it was. done is false if it has changed meanwhile.
func (s *sealing) put(ctx context.Context, namespace, key, value string, over *held) (done bool, err error) {
	r := api.Request{Method: http.MethodPut, Path: api.Memory(namespace, key), Header: http.Header{"If-None-Match": {"*"}}}
	if over != nil {
		r.Header = http.Header{"If-Match": {over.tag}}
	}
	if r.Body, err = json.Marshal(map[string]string{"value": value}); err != nil {
		return false, err
	}
	_, err = s.client.Do(ctx, r)
	if api.IsRefused(err, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, err
}

// tooMuch reports whether the daemon refuses an entry in a sealed namespace for its size or its key.
func tooMuch(err error) bool {
	return api.IsRefused(err, http.StatusBadRequest) || api.IsRefused(err, http.StatusRequestEntityTooLarge)
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
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing, args []string) error {
		namespace, written := args[0], 0
		x, err := s.direct.Examine(ctx, s.keys.For(namespace), func(key, keyID string) error {
			if keyID == s.keys.ID() {
				return nil
			}
			now, err := s.get(ctx, namespace, key)
			if err != nil || now == nil {
				return err
			}
			done, err := s.put(ctx, namespace, key, now.Value.Value, now)
			if done {
				written++
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s written again, and then: %w", words.Plural(written, "entry"), err)
		}
		more := ""
		if !x.Complete {
			more = ". Upstream lists no more than these: once they are sent, say it again"
		}
		_, err = fmt.Fprintf(p.Stdout, "%s of %d written again, to be sealed with key %s%s\n", words.Plural(written, "entry"), x.Entries, s.keys.ID(), more)
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
			"The plain entries stay, for everybody to read, until you say --delete: that deletes each of which upstream holds\n" +
			"a sealed copy that is as new. Copies that others have made of them remain.",
		Args: arguments(1, 1),
	}
	remove := cmd.Flags().Bool("delete", false, "delete the plain entries that are sealed now")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	return p.sealCommand(settings, cmd, func(ctx context.Context, s *sealing, args []string) error {
		namespace := args[0]
		if *remove {
			if err := p.mayAsk(*yes, "deletes entries"); err != nil {
				return err
			}
		}
		n := s.keys.For(namespace)
		written, err := s.adopt(ctx, namespace, n)
		if err != nil {
			return err
		}
		flushed, err := s.client.Flush(ctx, namespace, byHandTime, true)
		if err != nil {
			return err
		}
		if flushed.Pending > 0 {
			return fmt.Errorf("%s wait to be sent: botwired pending says why. The plain entries stay until then", words.Plural(flushed.Pending, "write"))
		}
		if written != "" { // guard 23.24
			if _, _, found, err := s.direct.SealedValue(ctx, n, written); err != nil || !found {
				return errors.Join(fmt.Errorf("upstream holds no sealed %s: does the daemon seal %s? It does after a restart. Nothing is deleted", written, namespace), err)
			}
		}
		if !*remove {
			_, err := fmt.Fprintf(p.Stdout, "the plain entries are still upstream, for everybody to read: botwired seal adopt %s --delete\n", term.Printable(namespace))
			return err
		}
		if !*yes {
			if err := p.Confirm(ctx, fmt.Sprintf("Delete the entries of the plain namespace %s upstream? Hosts that do not seal it lose them.", namespace)); err != nil {
				return err
			}
		}
		return s.deletePlain(ctx, namespace, n)
	})
}

// adopt writes the plain entries that the sealed namespace lacks. It returns the key of the last one.
func (s *sealing) adopt(ctx context.Context, namespace string, n *seal.Namespace) (last string, err error) {
	rows, complete, err := s.direct.List(ctx, namespace)
	if err != nil {
		return "", err
	}
	written, there := 0, 0
	for _, row := range rows {
		done, err := s.adoptOne(ctx, namespace, row.Key, n)
		switch {
		case tooMuch(err):
			fmt.Fprintf(s.Stdout, "left: %s: %s\n", term.Printable(row.Key), term.Printable(err.Error()))
		case err != nil:
			return "", fmt.Errorf("%s moved, and then: %w", words.Plural(written, "entry"), err)
		case done:
			last = row.Key
			written++
		default:
			there++
		}
	}
	if !complete {
		fmt.Fprintln(s.Stdout, "upstream lists no more than these: once they are deleted with --delete, say it again")
	}
	_, err = fmt.Fprintf(s.Stdout, "%s written to be sealed, %d there already\n", words.Plural(written, "entry"), there)
	return last, err
}

// adoptOne writes a plain entry into the sealed namespace, unless that or the daemon has a newer one.
func (s *sealing) adoptOne(ctx context.Context, namespace, key string, n *seal.Namespace) (written bool, err error) {
	if _, _, found, err := s.direct.SealedValue(ctx, n, key); found || err != nil {
		return false, err
	}
	plain, err := s.direct.Get(ctx, namespace, key)
	if err != nil || !plain.Present() {
		return false, err
	}
	now, err := s.get(ctx, namespace, key)
	if err != nil {
		return false, err
	}
	if now != nil && now.UpdatedAt > plain.WrittenAt && now.Value.Value != plain.Value {
		return false, nil // a write that waits to be sent
	}
	return s.put(ctx, namespace, key, plain.Value, now)
}

// deletePlain deletes the plain entries whose sealed copies are as new.
func (s *sealing) deletePlain(ctx context.Context, namespace string, n *seal.Namespace) error {
	rows, _, err := s.direct.List(ctx, namespace)
	if err != nil {
		return err
	}
	deleted := 0
	for _, row := range rows {
		sealed, _, found, err := s.direct.SealedValue(ctx, n, row.Key)
		if err != nil {
			return fmt.Errorf("%s deleted, and then %s: %w", words.Plural(deleted, "entry"), row.Key, err)
		}
		plain, err := s.direct.Get(ctx, namespace, row.Key)
		if err != nil {
			return fmt.Errorf("%s deleted, and then: %w", words.Plural(deleted, "entry"), err)
		}
		switch {
		case !plain.Present():
			continue
		case !found:
			fmt.Fprintf(s.Stdout, "left: %s: it is not sealed\n", term.Printable(row.Key))
			continue
		case sealed.Value != plain.Value && time.UnixMicro(sealed.WrittenAt).Before(term.Unix(plain.WrittenAt)): // guard 23.25
			fmt.Fprintf(s.Stdout, "left: %s: a program that does not seal has written it since\n", term.Printable(row.Key))
			continue
		}
		if err := s.direct.Delete(ctx, namespace, row.Key, plain); err != nil {
			return fmt.Errorf("%s deleted, and then: %w", words.Plural(deleted, "entry"), err)
		}
		deleted++
	}
	_, err = fmt.Fprintf(s.Stdout, "%s deleted from the plain namespace\n", words.Plural(deleted, "entry"))
	return err
}
