package keyname_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/wire"
)

// vectors are the Python package's: its tests read the same file.
func vectors(t testing.TB) (v struct {
	Keys []struct{ Name, Wire string }
	// Foreign keys are no escape, though they look like one.
	Foreign []string `json:"foreign_keys"`
}) {
	t.Helper()
	text, err := os.ReadFile("../../clients/python/tests/names.json")
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || len(v.Keys) == 0 || len(v.Foreign) == 0 {
		t.Fatal(len(v.Keys), len(v.Foreign), err)
	}
	return v
}

// A key that BotWire refuses is the Python package's escape of it. Every key that BotWire takes is itself.
func TestTheEscapeIsThePythonPackages(t *testing.T) {
	v := vectors(t)
	for _, key := range v.Keys {
		got, err := keyname.Parse(key.Name)
		shown := keyname.Format(key.Wire)
		switch {
		case wire.CheckKey(key.Name) == nil: // if Python escapes it, it looks like an escape
			if got != key.Name || err != nil || shown != key.Wire {
				t.Errorf("%q: parsed %q, %v, and %q shown as %q", key.Name, got, err, key.Wire, shown)
			}
		case strings.HasPrefix(key.Wire, "_-"):
			if got != "" || err == nil || !strings.Contains(err.Error(), key.Wire) || shown != key.Wire {
				t.Errorf("%q: parsed %q, %v, and %q shown as %q", key.Name, got, err, key.Wire, shown)
			}
		case got != key.Wire || err != nil || shown != key.Name:
			t.Errorf("%q: parsed %q, %v, and %q shown as %q", key.Name, got, err, key.Wire, shown)
		}
	}
	for _, key := range append(v.Foreign, "_..ED.A0.80") { // Python can hold a lone surrogate, and Go cannot
		if shown := keyname.Format(key); shown != key {
			t.Errorf("%q, which is no escape, is shown as %q", key, shown)
		}
	}
	for _, key := range []string{"", "a\xffb", "\xed\xa0\x80"} {
		if got, err := keyname.Parse(key); got != key || err != nil {
			t.Errorf("%q, which has no escape, is parsed as %q, %v", key, got, err)
		}
	}
}

func FuzzEveryKeyRoundTrips(f *testing.F) {
	for _, key := range append(vectors(f).Foreign, "_..ED.A0.80") { // Python can hold a lone surrogate, and Go cannot
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		parsed, err := keyname.Parse(key)
		if err == nil && wire.CheckKey(parsed) == nil && wire.CheckKey(key) != nil && keyname.Format(parsed) != key {
			t.Errorf("%q is parsed as %q, which is shown as %q", key, parsed, keyname.Format(parsed))
		}
		if wire.CheckKey(key) != nil {
			return
		}
		if back, err := keyname.Parse(keyname.Format(key)); back != key || err != nil {
			t.Errorf("%q is shown as %q, which is parsed as %q, %v", key, keyname.Format(key), back, err)
		}
	})
}

// The prefixes find each key by any beginning of what is shown, and no key twice.
func TestPrefixes(t *testing.T) {
	v := vectors(t)
	keys := slices.Clone(v.Foreign)
	for _, key := range v.Keys {
		keys = append(keys, key.Wire)
	}
	for _, key := range keys {
		shown := keyname.Format(key)
		for end := range shown {
			prefixes := keyname.Prefixes(shown[:end])
			found := 0
			for _, prefix := range prefixes {
				if strings.HasPrefix(key, prefix) {
					found++
				}
			}
			if found != 1 || !keyname.Begins(key, shown[:end]) || !slices.IsSorted(prefixes) {
				t.Errorf("%q by %q: %d of %q, begins: %t", key, shown[:end], found, prefixes, keyname.Begins(key, shown[:end]))
			}
		}
	}
	if keyname.Begins("_.customer.3A8", "cuxtomer") {
		t.Error("a key begins with another text")
	}
}
