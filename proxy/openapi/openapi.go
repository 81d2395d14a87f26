// Package openapi describes the daemon's HTTP API for programs: BotWire's memory API as the daemon serves it,
// and the daemon's own API.
//
// People edit openapi.yaml, and the daemon serves it as JSON. The tests of package proxy check each of its
// answers against the description, and the description against all answers. The package imports nothing of
// the project.
package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var source []byte

// noVersion is the placeholder for the daemon's version.
const noVersion = `version: "0"`

// Document is the description as JSON.
type Document struct {
	JSON []byte // do not change it
	Tag  string // an entity tag for the content
}

// Lazy returns a function that makes the description on its first call, because few daemons are ever asked
// for it. version is the daemon's. The function may be called concurrently.
func Lazy(version string) func() (*Document, error) {
	return sync.OnceValues(func() (*Document, error) { return load(version) })
}

func load(version string) (*Document, error) {
	quoted, err := json.Marshal(version)
	if err != nil {
		return nil, err
	}
	if bytes.Count(source, []byte(noVersion)) != 1 {
		return nil, errors.New("openapi.yaml has no place for the version")
	}
	text := bytes.Replace(source, []byte(noVersion), append([]byte("version: "), quoted...), 1)
	loose, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	var doc bytes.Buffer
	if err := json.Compact(&doc, loose); err != nil {
		return nil, fmt.Errorf("openapi.yaml as JSON: %w", err)
	}
	doc.WriteByte('\n')
	digest := sha256.Sum256(doc.Bytes())
	return &Document{doc.Bytes(), `"` + base64.RawURLEncoding.EncodeToString(digest[:18]) + `"`}, nil
}
