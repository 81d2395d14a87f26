package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/words"
)

const (
	// mostSealed bounds the sealed namespaces that doctor looks at, and the values that it opens of each.
	mostSealed = 5
	// growsWithin is how young the newest entry of a plain twin is while some program writes there.
	growsWithin = 24 * time.Hour
)

// keyFile checks that the key file can be used, and that nobody else can read it.
func (e *examination) keyFile(context.Context) Finding {
	const name = "key file"
	file := e.loaded.Config.Seal.KeyFile
	if file == "" {
		return none(name, "no namespace is sealed")
	}
	keys, err := seal.Load(file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return none(name, "this user may not read %s: run doctor as the daemon's", file)
	case errors.Is(err, fs.ErrNotExist):
		return fail(name, "botwired seal keygen "+attach.ShellWord(file), "there is no %s: bring it back from its backup; only if nothing was sealed yet, make it with", file)
	case err != nil:
		return fail(name, "chmod 600 "+attach.ShellWord(file), "%s", err)
	}
	return good(name, "%s seals with key %s, and nobody else may read it", file, keys.ID())
}

// sealed looks for entries that this host cannot open, and for programs that write past the seal.
func (e *examination) sealed(ctx context.Context) []Finding {
	const name = "sealed"
	c, _ := e.examined(ctx)
	keys, err := seal.Load(e.loaded.Config.Seal.KeyFile)
	switch {
	case e.loaded.Config.Seal.KeyFile == "" || err != nil:
		return []Finding{none(name, "there is no key file to look with")}
	case e.tokenError != nil:
		return []Finding{none(name, "the token for the daemon cannot be read")}
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	names, _ := e.client.SealedNamespaces(asking, &e.loaded.Config) // without a daemon, those that the configuration names
	names = names[:min(len(names), mostSealed)]
	switch {
	case len(names) == 0:
		return []Finding{none(name, "no namespace is known that is sealed")}
	case c.Upstream.Kind() == config.KindEmbedded:
		return []Finding{none(name, "upstream is inside the daemon")}
	}
	d, err := engines.OpenDirect(ctx, c)
	if err != nil {
		return []Finding{none(name, "%s", err)}
	}
	defer d.Close()
	var found []Finding
	for _, namespace := range names {
		found = append(found, e.sealedNamespace(ctx, d, keys, namespace)...)
	}
	if len(found) == 0 {
		found = append(found, good(name, "%s: upstream lists nothing plain of it, and all names and the newest values open", strings.Join(names, ", ")))
	}
	return found
}

func (e *examination) sealedNamespace(ctx context.Context, d *engines.Direct, keys *seal.Keys, namespace string) (found []Finding) {
	const name = "sealed"
	status := "botwired seal status " + namespace
	x, err := d.Examine(ctx, keys, namespace, mostSealed)
	for _, id := range slices.Sorted(maps.Keys(x.Unknown)) {
		found = append(found, fail(name, status,
			"another host seals %s with key %s, which this host's key file lacks: copy its line from there; see all of it with", namespace, id))
	}
	if len(x.Refused) > 0 {
		found = append(found, fail(name, status, "an entry of %s does not open: %s; see all of it with", namespace, x.Refused[0]))
	}
	if x.Names > 0 {
		found = append(found, fail(name, status, "upstream holds %s in %s that no key opens; see all of it with", words.Plural(x.Names, "name"), namespace))
	}
	if err != nil {
		return append(found, none(name, "%s: %s", namespace, err))
	}
	if x.Plain == 0 {
		return found
	}
	grows := ""
	if at := term.Unix(x.PlainAt); e.now().Sub(at) < growsWithin {
		grows = ", and some program writes there, past the seal (last " + term.Moment(e.reader, at) + "): give its host the key file"
	}
	return append(found, warn(name, "botwired seal adopt "+namespace,
		"the plain namespace %s has %s, for everybody to read%s: move them in with", namespace, words.Plural(x.Plain, "entry"), grows))
}
