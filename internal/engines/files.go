package engines

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/linefile"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// DatabaseFile is the embedded upstream's database in the data directory. SQLite's other files have
// longer names.
const DatabaseFile = "memory.db"

const (
	// hostFile holds the names of a data directory's daemons, which mark their writes upstream, oldest first. A name
	// is the machine's, so that people know it in a history, and random characters. All but the last one are with the
	// highest number of the journal when the next one was drawn.
	hostFile = "HOST"
	// mostHosts bounds the names that are remembered. A version under an older one counts as another host's.
	mostHosts = 500
	// markFile holds the bucket's mark: its state when last seen.
	markFile = "NATS"
	// sealedFile holds what the last start sealed: the ID of the name key, then the lines of
	// [config.Config.Sealing].
	sealedFile = "SEALED"
	// hostSize is the length of a host's name without the machine's, in characters of 5 random bits each.
	hostSize = 16
	hostMost = 4 * hostSize
	hostText = "abcdefghijklmnopqrstuvwxyz0123456789-"
)

// Files names all other files that the engines keep in a data directory.
var Files = []string{hostFile, markFile, sealedFile}

// host is the name of a daemon, and those of the earlier ones of its data directory.
type host struct {
	name    string
	earlier upstream.Earlier
}

// newHost draws a name for a daemon, and records it. last is the highest number in the directory's journal: no write
// is sent yet under a higher one.
func newHost(dataDir string, last uint64) (host, error) {
	file := filepath.Join(dataDir, hostFile)
	text, err := linefile.Read(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return host{}, err
	}
	h := host{machine() + strings.ToLower(rand.Text()[:hostSize]), make(upstream.Earlier)}
	var lines []string
	if err == nil {
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	for i, line := range lines {
		name, number, ended := strings.Cut(line, " ")
		upTo, err := last, error(nil)
		if ended {
			upTo, err = strconv.ParseUint(number, 10, 64)
		}
		if err != nil || len(name) < hostSize || len(name) > hostMost || strings.Trim(name, hostText) != "" {
			return host{}, fmt.Errorf("the file %s names no hosts (%.40q): it is damaged. Remove it, and what this host has written counts as another one's", file, line)
		}
		h.earlier[name] = upTo
		lines[i] = name + " " + strconv.FormatUint(upTo, 10)
	}
	lines = append(lines[max(0, len(lines)-mostHosts):], h.name)
	return h, linefile.Write(file, strings.Join(lines, "\n"))
}

// machine returns the beginning of this machine's name and a hyphen, or "" if it has no name that can be used.
func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(hostText, r) {
			return r
		}
		return -1
	}, name)
	if name = strings.Trim(name[:min(len(name), hostMost-hostSize-1)], "-"); name == "" {
		return ""
	}
	return name + "-"
}

// keepSealing returns an error if the data directory was used with another name key, or keeps anything of a namespace that
// was sealed and no longer is: that would go upstream in the clear. It also returns one if a namespace becomes sealed that
// still has writes for the plain one. Then it has the journal give up what it knows from upstream of the namespaces that
// upstream calls otherwise from now on, and last it records what is sealed: a start that is cut off begins again. keys is
// nil without a key file.
func keepSealing(c *config.Config, keys *seal.Keys, j *journal.Journal) error {
	name := filepath.Join(c.DataDir, sealedFile)
	text, err := linefile.Read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known, rest, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	rules := c.Sealing()
	now := strings.Join(rules, "\n")
	nameKey := known
	if keys != nil {
		nameKey = keys.NameID()
	}
	switch {
	case err != nil && keys == nil:
		return nil // it has never sealed anything
	case err != nil:
	case nameKey != known: // guard 23.30
		return fmt.Errorf("seal.key_file: %[1]s: its name key is %[2]s, and data_dir was used with %.40[3]q: all sealed namespaces would be other, empty ones, "+
			"and their copies here would go as if upstream had deleted everything. Bring the file with that key back. If it is lost, docs/sealed.md says "+
			"under \"Lose the key\" how to save the copies and begin anew, with %[2]s as the first line of %[4]s", c.Seal.KeyFile, nameKey, known, name)
	case rest == now:
		return nil
	}
	before := strings.Split(rest, "\n")
	changed, err := j.Kept(func(namespace string) bool {
		return config.IsSealed(before, namespace) != config.IsSealed(rules, namespace) // guard 23.32
	})
	if err != nil {
		return err
	}
	for i := range changed {
		if err := mayChange(&changed[i], config.IsSealed(rules, changed[i].Namespace)); err != nil {
			return err
		}
	}
	for i := range changed { // guard 23.40
		if err := j.Rename(changed[i].Namespace); err != nil {
			return err
		}
	}
	return linefile.Write(name, strings.TrimSpace(nameKey+"\n"+now))
}

// mayChange returns an error if a namespace must not be sealed now, or must stay sealed, for what is kept of it.
func mayChange(k *journal.Kept, seals bool) error {
	kept := counts(
		count{k.Pending, "pending write", "pending writes"}, count{k.Copies, "copy", "copies"}, count{k.Versions, "version", "versions"},
		count{k.DeadLetters, "dead letter", "dead letters"}, count{k.Receipts, "receipt", "receipts"},
		count{k.Unanswered, "unanswered request", "unanswered requests"})
	switch {
	case seals && k.Pending > 0: // guard 23.41
		return fmt.Errorf("namespaces: %[1]s is to be sealed, and %[2]s for the plain namespace would go to the sealed one, where a delete finds nothing. "+
			"Flush first: start once more without sealed: true for it, and run botwired flush --namespace %[1]s", k.Namespace, words.Plural(k.Pending, "pending write"))
	case seals && k.Open > 0: // guard 23.45
		return fmt.Errorf("namespaces: %[1]s is to be sealed, and a retry of %[2]s would send what was for the plain namespace to the sealed one. "+
			"Decide first: start once more without sealed: true for it, and retry or delete them (botwired dead-letters --namespace %[1]s)",
			k.Namespace, words.Plural(k.Open, "open dead letter"))
	case !seals && kept != "": // guard 23.42
		return fmt.Errorf("namespaces: %[1]s was sealed, and no longer is, and the data directory keeps of it %[2]s: all that would go upstream in the clear. "+
			"Bring back its entry with sealed: true. To take it out for good, save it, and purge it before (botwired purge %[1]s): "+
			"docs/sealed.md says how under \"Take a namespace out\"", k.Namespace, kept)
	}
	return nil
}

type count struct {
	n         int
	one, more string
}

// counts names the parts that are not zero.
func counts(parts ...count) string {
	var all []string
	for _, p := range parts {
		if p.n > 0 {
			all = append(all, words.Number(int64(p.n))+" "+words.ByNumber(p.n, p.one, p.more))
		}
	}
	return strings.Join(all, ", ")
}

// fileMarks stores the mark in a file. It implements [natskv.Marks].
type fileMarks struct{ name string }

// Load implements [natskv.Marks].
func (f fileMarks) Load() (m natskv.Mark, err error) {
	text, err := linefile.Read(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return natskv.Mark{}, fmt.Errorf("the file %s does not say what the bucket was (%w): nobody can tell whether upstream has lost writes. "+
			"Delete the file to accept the bucket as it is", f.name, err)
	}
	return m, nil
}

// Save implements [natskv.Marks].
func (f fileMarks) Save(m natskv.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return linefile.Write(f.name, string(text))
}

// journaledMarks are the daemon's. The file has the mark of the last look at the bucket, and the journal what was
// seen since: it has kept that with the copies, so no copy is newer.
type journaledMarks struct {
	fileMarks
	seen []byte // the journal's; nil if it has nothing
}

// Load implements [natskv.Marks].
func (j journaledMarks) Load() (natskv.Mark, error) {
	m, err := j.fileMarks.Load()
	if err != nil || len(j.seen) == 0 {
		return m, err
	}
	var seen natskv.Mark
	if err := json.Unmarshal(j.seen, &seen); err != nil {
		return natskv.Mark{}, fmt.Errorf("the journal does not say what was seen of the bucket: %w", err)
	}
	if m == (natskv.Mark{}) { // a person has deleted the file: what was seen of the bucket before counts no more
		m.Accepted = seen.Accepted + 1
	}
	return m.With(seen), nil // guard 9.89
}

// savedMarks are those of a daemon, for somebody beside it.
type savedMarks struct{ fileMarks }

// Save implements [natskv.Marks]. The daemon alone saves what it has seen.
func (savedMarks) Save(natskv.Mark) error { return nil }
