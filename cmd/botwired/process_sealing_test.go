package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/proof/canary"
)

// With -sealed, the daemons of TestProcess seal all namespaces, and nothing plain may reach a memory service.
var sealing = flag.Bool("sealed", false, "seal all namespaces in TestProcess")

// keys is nil unless all namespaces are sealed.
var keys *sealedForAll

type sealedForAll struct {
	*seal.Keys
	file  string
	watch *canary.Watch
}

// sealAll seals what the daemons from now on write, and judges at the end what has gone upstream.
func sealAll(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	no(t, os.WriteFile(file, seal.Generate(), 0o600))
	loaded, err := seal.Load(file)
	no(t, err)
	keys = &sealedForAll{loaded, file, &canary.Watch{Headers: []string{"X-Key"}}}
	t.Cleanup(func() {
		watch := keys.watch
		keys = nil
		if t.Log(watch.Count()); watch.Err() != nil {
			t.Error(watch.Err())
		}
	})
}

// environment returns the settings of a daemon. A file with namespaces of its own says by namespaces that they
// are sealed.
func (s *sealedForAll) environment(args []string) []string {
	env := []string{"BOTWIRED_SEAL_KEY_FILE=" + s.file, `BOTWIRED_NAMESPACES=[{"match":"*","sealed":true}]`}
	if i := slices.Index(args, "--config"); i >= 0 {
		if text, err := os.ReadFile(args[i+1]); err == nil && strings.Contains(string(text), "namespaces:") {
			return env[:1]
		}
	}
	return env
}

// namespaces returns that setting for a configuration file.
func namespaces(entries ...string) string {
	if keys != nil {
		for i, entry := range entries {
			entries[i] = strings.TrimSuffix(entry, "}") + ", sealed: true}"
		}
		entries = append(entries, "{match: '*', sealed: true}")
	}
	return "namespaces: [" + strings.Join(entries, ", ") + "]\n"
}

// hidden returns the name that an entry has upstream.
func hidden(key string) string {
	if keys == nil {
		return key
	}
	namespace, name, _ := strings.Cut(key, "/")
	n := keys.For(namespace)
	name, _ = n.Key(name)
	return n.Name() + "/" + name
}

// sealedBy returns the value that a host sends upstream.
func sealedBy(host, key, value string) string {
	if keys == nil {
		return value
	}
	namespace, name, _ := strings.Cut(key, "/")
	return keys.For(namespace).Seal(name, seal.Value{WrittenAt: time.Now().UnixMicro(), Host: host, Seq: 1, Value: value})
}

// unsealed opens a value that upstream holds. key may be hidden. If no key opens the value, unsealed returns
// it unchanged.
func unsealed(key, value string, namespaces ...string) string {
	if keys == nil {
		return value
	}
	namespace, name, _ := strings.Cut(key, "/")
	for _, each := range append([]string{namespace}, namespaces...) {
		n, plain := keys.For(each), name
		if opened, ok := n.OpenKey(name); ok {
			plain = opened
		}
		if v, _, err := n.Open(plain, value); err == nil {
			return v.Value
		}
	}
	return value
}
