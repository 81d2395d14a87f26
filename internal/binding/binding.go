// Package binding says to which upstream a data directory belongs. Otherwise one service's pending writes would go to
// another, and the copies of one would answer for the other.
package binding

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/linefile"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
)

// File holds, as text, the identity of the upstream that the journal belongs to. It is a separate file: an older botwired
// ignores it, and it stays valid when the journal is recovered.
const File = "UPSTREAM"

// MovedFromFlag is the flag of botwired recover that names the former upstream.
const MovedFromFlag = "moved-from"

// Check returns the identity that the data directory belongs to, or "" if there is none yet. The error says that the
// configured upstream is another one and that the journal holds something. holdings is called only if that matters.
func Check(c *config.Config, holdings func() (journal.Holdings, error)) (bound string, err error) {
	bound, err = Read(c.DataDir)
	if err != nil || bound == "" || bound == c.Upstream.Identity() {
		return bound, err
	}
	h, err := holdings()
	if err == nil && h != (journal.Holdings{}) {
		err = otherUpstream(c, bound, h) // guard 13.18
	}
	return bound, err
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
		"or, %s, say so once: %s", wanted, bound, Held(h), first, same, saysMoved(c, bound))
}

// Held describes what a journal holds.
func Held(h journal.Holdings) string {
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
	return line + " --" + MovedFromFlag + " " + attach.ShellWord(bound)
}

// Read returns the recorded identity, or "" if there is none.
func Read(dataDir string) (string, error) {
	name := filepath.Join(dataDir, File)
	text, err := linefile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil && !errors.Is(err, linefile.ErrForeign) {
		return "", err
	}
	bound, ok := config.ParseIdentity(strings.TrimSpace(string(text)))
	if !ok { // guard 13.21
		return "", fmt.Errorf("the file %s names no upstream (%.60q): it is damaged, and nobody knows whose entries the journal holds: "+
			"write into %s the URL of that upstream, as upstream.url had it", File, strings.TrimSpace(string(text)), name)
	}
	return bound, nil
}

// Write records the identity of the upstream that the data directory belongs to from now on.
func Write(dataDir, upstream string) error {
	return linefile.Write(filepath.Join(dataDir, File), upstream)
}
