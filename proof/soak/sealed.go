package main

import (
	"os"
	"path/filepath"

	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/proof/canary"
)

// sealing is how the daemon seals all namespaces, and what its upstream has received. It is nil where nothing
// is sealed.
type sealing struct {
	file  string
	keys  *seal.Keys
	watch canary.Watch
}

func newSealing(dir string) (*sealing, error) {
	s := &sealing{file: filepath.Join(dir, "keys")}
	err := os.WriteFile(s.file, seal.Generate(), 0o600)
	if err == nil {
		s.keys, err = seal.Load(s.file)
	}
	return s, err
}

// settings returns the daemon's flags.
func (s *sealing) settings() []string {
	if s == nil {
		return nil
	}
	return []string{"--seal-key-file", s.file, "--namespaces", `[{"match":"*","sealed":true}]`}
}

// name returns a namespace's name upstream.
func (s *sealing) name(namespace string) string {
	if s == nil {
		return namespace
	}
	return s.keys.For(namespace).Name()
}

// path returns an entry's path upstream.
func (s *sealing) path(e *numbered.Entry) string {
	if s == nil {
		return e.Path()
	}
	n := s.keys.For(e.Namespace)
	key, _ := n.Key(e.Key)
	return "/memory/" + n.Name() + "/" + key
}

// open returns the value of an entry upstream.
func (s *sealing) open(e *numbered.Entry, held string) (string, error) {
	if s == nil || held == "" {
		return held, nil
	}
	v, _, err := s.keys.For(e.Namespace).Open(e.Key, held)
	return v.Value, err
}
