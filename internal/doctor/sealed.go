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
	"github.com/botwired/botwired/upstream"
)

const (
	// mostSealed bounds the sealed namespaces that doctor looks at, and mostValues the values that it opens of
	// each.
	mostSealed, mostValues = 5, 5
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
	names := e.sealedNamespaces(ctx)
	switch {
	case e.loaded.Config.Seal.KeyFile == "" || err != nil:
		return []Finding{none(name, "there is no key file to look with")}
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

// sealedNamespaces returns the first sealed namespaces that the configuration or the daemon names.
func (e *examination) sealedNamespaces(ctx context.Context) []string {
	names := map[string]bool{}
	for _, o := range e.loaded.Config.Namespaces {
		names[o.Match] = true
	}
	if s, err := e.ask(ctx); err == nil {
		for i := range s.Namespaces {
			names[s.Namespaces[i].Namespace] = true
		}
	}
	sorted := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		return strings.ContainsAny(name, `*?[\`) || !e.loaded.Config.For(name).Sealed
	})
	return sorted[:min(len(sorted), mostSealed)]
}

func (e *examination) sealedNamespace(ctx context.Context, d *engines.Direct, keys *seal.Keys, namespace string) (found []Finding) {
	const name = "sealed"
	n := keys.For(namespace)
	listed, closed, _, err := d.SealedKeys(ctx, n)
	if err != nil {
		return []Finding{none(name, "%s: %s", namespace, err)}
	}
	status := "botwired seal status " + namespace
	if closed > 0 {
		found = append(found, fail(name, status, "upstream holds %s in %s that no key opens; see all of it with", words.Plural(closed, "name"), namespace))
	}
	for _, key := range listed[:min(len(listed), mostValues)] {
		_, _, _, err := d.SealedValue(ctx, n, key)
		if err == nil {
			continue
		}
		if unknown, ok := errors.AsType[*seal.UnknownKey](err); ok {
			found = append(found, fail(name, status,
				"another host seals %s with key %s, which this host's key file lacks: copy its line from there; see all of it with", namespace, unknown.ID))
		} else if _, unasked := errors.AsType[*upstream.Error](err); unasked || ctx.Err() != nil {
			return append(found, none(name, "%s: %s", namespace, err))
		} else {
			found = append(found, fail(name, status, "an entry of %s does not open: %s; see all of it with", namespace, err))
		}
		break
	}
	plain, _, err := d.List(ctx, namespace)
	if err != nil {
		return append(found, none(name, "%s: %s", namespace, err))
	}
	if len(plain) == 0 {
		return found
	}
	newest := 0.0
	for _, row := range plain {
		newest = max(newest, row.UpdatedAt)
	}
	twin := words.Plural(len(plain), "entry")
	if at := term.Unix(newest); e.now().Sub(at) < growsWithin {
		return append(found, warn(name, "botwired seal adopt "+namespace,
			"some program writes to the plain namespace %s, past the seal (%s, the newest of %s): give its host the key file, then move them in with", namespace, twin, term.Moment(e.reader, at)))
	}
	return append(found, warn(name, "botwired seal adopt "+namespace, "the plain namespace %s has %s, for everybody to read: move them in with", namespace, twin))
}
