package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/engines"
)

// mostSealed bounds the sealed namespaces that doctor looks at, and the entries that it opens of each.
const mostSealed = 5

// keyFile checks that the key file can be used, and that nobody else can read it.
func (e *examination) keyFile(context.Context) Finding {
	const name = "key file"
	file := e.loaded.Config.Seal.KeyFile
	keys, err := engines.Keys(&e.loaded.Config)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return none(name, "this user may not read %s: run doctor as the daemon's", file)
	case err != nil:
		return fail(name, "", "%s", err)
	case keys == nil:
		return none(name, "no namespace is sealed")
	}
	return good(name, "%s seals with key %s, and nobody else may read it", file, keys.ID())
}

// sealsByAnOlderFile warns of a daemon that was started before its configuration file was changed: what is sealed changes
// at a start alone.
func (e *examination) sealsByAnOlderFile(ctx context.Context) (f Finding, isOld bool) {
	s, err := e.ask(ctx)
	if err != nil || e.loaded.File == "" {
		return Finding{}, false
	}
	file, err := os.Stat(e.loaded.File)
	if err != nil || !file.ModTime().After(s.StartedAt) {
		return Finding{}, false
	}
	return warn("sealed", "botwired serve", "%s was changed after the daemon's start, and the daemon seals what the file said then: "+
		"stop the daemon and start it again with", e.loaded.File), true
}

// sealed looks for entries that this host cannot open, and for programs that write past the seal.
func (e *examination) sealed(ctx context.Context) (found []Finding) {
	const name = "sealed"
	keys, err := engines.Keys(&e.loaded.Config)
	switch {
	case keys == nil || err != nil:
		return []Finding{none(name, "there is no key file to look with")}
	case e.tokenError != nil:
		return []Finding{none(name, "the token for the daemon cannot be read")}
	}
	if f, isOld := e.sealsByAnOlderFile(ctx); isOld {
		return []Finding{f}
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	names, _ := e.client.SealedNamespaces(asking, &e.loaded.Config) // without a daemon, those that the configuration names
	if len(names) == 0 {
		return []Finding{none(name, "no namespace is known that is sealed")}
	}
	c, _ := e.examined(ctx)
	d, err := engines.OpenDirect(ctx, c)
	if err != nil {
		return []Finding{none(name, "%s", err)}
	}
	defer d.Close()
	names = names[:min(len(names), mostSealed)]
	for _, namespace := range names {
		x, err := d.Examine(ctx, keys, namespace, mostSealed)
		for _, fault := range x.Faults() {
			found = append(found, fail(name, "botwired seal status "+namespace, "%s; see all of it with", fault))
		}
		if x.Plain > 0 {
			found = append(found, warn(name, "botwired seal adopt "+namespace, "%s, written until %s. A program that still writes there needs the key file. Move them in with",
				x.PlainTwin(), term.Moment(e.reader, term.Unix(x.PlainAt))))
		}
		if err != nil {
			found = append(found, none(name, "%s: %s", namespace, err))
		}
	}
	if len(found) == 0 {
		found = append(found, good(name, "%s: upstream lists nothing plain of it, and the newest entries open", strings.Join(names, ", ")))
	}
	return found
}
