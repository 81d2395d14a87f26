package walk

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// nameIter walks the names of records: the keys of pending writes, or the namespaces of entries. The
// records are not sorted by name. In a record's key a slash follows the name, so `a-b` and `a.b` come
// before `a`.
type nameIter struct {
	it     *pebble.Iterator
	prefix []byte
	parse  func(record []byte) (name string, err error)
	// found is the last result of after; there is false if it found nothing.
	found        string
	there, began bool
	// lacks is the last prefix without records, cached because neighbouring names share prefixes.
	lacks  string
	damage error
}

func newNameIter(r pebble.Reader, prefix []byte, parse func([]byte) (string, error)) (nameIter, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	return nameIter{it: it, prefix: prefix, parse: parse}, err
}

func pendingName(key []byte) (string, error) {
	id, _, err := record.ParsePendingKey(key)
	return id.Key, err
}

func (g *nameIter) close() error {
	if g.it == nil {
		return nil
	}
	return g.it.Close()
}

func (g *nameIter) error() error { return errors.Join(g.damage, g.it.Error()) }

// after returns the first name that follows another one. Callers ask for names in ascending order.
func (g *nameIter) after(name string) (found string, there bool) {
	if !g.began || g.there && g.found <= name {
		g.found, g.there = g.search(name)
		g.began = true
	}
	return g.found, g.there
}

// isAt reports whether after has last found this name.
func (g *nameIter) isAt(name string) bool { return g.there && g.found == name }

// search returns the first name that follows another one. It seeks past `name-`. After that come the
// records of all later names, and among earlier names only those of prefixes of name. As `a-b` can come
// before `a`, search then looks for records of the prefixes of the name found.
func (g *nameIter) search(name string) (found string, there bool) {
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

// shortest returns the shortest prefix of name that has records and follows behind, or name itself.
func (g *nameIter) shortest(behind, name string) string {
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

// recordsOf returns the prefix of all records under a name.
func (g *nameIter) recordsOf(name string) []byte {
	return append(append(bytes.Clone(g.prefix), name...), '/')
}
