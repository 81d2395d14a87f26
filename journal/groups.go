package journal

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// groupIter finds the names under which records of one kind are: the keys of pending writes, or
// the namespaces of entries. The records are not in the order of the names: a slash follows a
// name, so the names that go on with a hyphen or a dot come before the name itself.
type groupIter struct {
	it     *pebble.Iterator
	prefix []byte
	parse  func(record []byte) (name string, err error)
	// found is the name that after found last, and there is false if there was none.
	found        string
	there, began bool
	// lacks is the beginning of a name that was last looked for in vain: neighbours share theirs.
	lacks  string
	damage error
}

func newGroupIter(r pebble.Reader, prefix []byte, parse func([]byte) (string, error)) (groupIter, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	return groupIter{it: it, prefix: prefix, parse: parse}, err
}

// pendingName is the key of the entry that a pending record is of.
func pendingName(key []byte) (string, error) {
	id, _, err := record.ParsePendingKey(key)
	return id.Key, err
}

func (g *groupIter) close() error {
	if g.it == nil {
		return nil
	}
	return g.it.Close()
}

func (g *groupIter) error() error { return errors.Join(g.damage, g.it.Error()) }

// after is the first name behind another one. Names come in ascending order.
func (g *groupIter) after(name string) (found string, there bool) {
	if !g.began || g.there && g.found <= name {
		g.found, g.there = g.search(name)
		g.began = true
	}
	return g.found, g.there
}

// isAt reports whether there is a record under the name that the walk has come to.
func (g *groupIter) isAt(name string) bool { return g.there && g.found == name }

// search finds the first name behind another one. The records under the names behind it are all
// behind the record that it would have if it went on with a hyphen, and of the names before it
// only those are there that it begins with. Of two names of which one begins with the other,
// the longer one's record may come first: so search looks for the beginnings of the name found.
func (g *groupIter) search(name string) (found string, there bool) {
	from := bytes.Clone(g.prefix)
	if name != "" {
		from = append(append(from, name...), '-')
	}
	for valid := g.it.SeekGE(from); valid; valid = g.it.SeekGE(record.After(g.recordsOf(found))) {
		var err error
		if found, err = g.parse(g.it.Key()); err != nil {
			g.damage = err
			return "", false
		}
		if found > name {
			return g.shortest(name, found), true // guard 6.11
		}
	}
	return "", false
}

// shortest is the shortest name that another one begins with, behind a third.
func (g *groupIter) shortest(behind, name string) string {
	for i := 1; i < len(name); i++ {
		if c := name[i]; c != '-' && c != '.' || name[:i] <= behind || name[:i] == g.lacks {
			continue
		}
		records := g.recordsOf(name[:i])
		if g.it.SeekGE(records) && bytes.HasPrefix(g.it.Key(), records) {
			return name[:i]
		}
		g.lacks = name[:i]
	}
	return name
}

// recordsOf is what the records under a name begin with.
func (g *groupIter) recordsOf(name string) []byte {
	return append(append(bytes.Clone(g.prefix), name...), '/')
}
