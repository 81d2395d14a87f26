package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// node is a value from any source before a codec parses it: a scalar with its text as written, a list
// or a mapping.
type node struct {
	kind  nodeKind
	text  string // of a scalar
	raw   bool   // text from a flag or an environment variable, where lists and mappings are JSON
	items []node // of a list
	pairs []pair // of a mapping, in order
	line  int    // in the file, from 1; 0 for other sources
}

type pair struct {
	key   string
	line  int
	value node
}

type nodeKind int

const (
	isText nodeKind = iota
	isNumber
	isBool
	isNull
	isList
	isMapping
)

// structured returns a list or a mapping. It parses the JSON of a flag or an environment variable; a node
// from a file already has its structure.
func (n node) structured(kind nodeKind) (node, error) {
	if n.raw {
		parsed, err := parseYAML([]byte(n.text)) // JSON is YAML
		if err != nil || !json.Valid([]byte(n.text)) {
			return node{}, errUnexpected
		}
		n = parsed
	}
	if n.kind != kind {
		return node{}, errUnexpected
	}
	return n, nil
}

// String formats the node for an error message, on one line and close to what was written.
func (n node) String() string {
	switch n.kind {
	case isText:
		return fmt.Sprintf("%q", n.text)
	case isList:
		parts := make([]string, len(n.items))
		for i, item := range n.items {
			parts[i] = item.String()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case isMapping:
		parts := make([]string, len(n.pairs))
		for i, p := range n.pairs {
			parts[i] = fmt.Sprintf("%q: %s", p.key, p.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return n.text
	}
}
