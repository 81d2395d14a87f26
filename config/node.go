package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// structured returns a list or a mapping. It parses the JSON of a flag or an environment variable; a
// node from a file already has its structure.
func (n node) structured(kind nodeKind) (node, error) {
	if n.raw {
		dec := json.NewDecoder(strings.NewReader(n.text))
		dec.UseNumber()
		var err error
		if n, err = readJSON(dec); err != nil {
			return node{}, errUnexpected
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) { // text after the value
			return node{}, errUnexpected
		}
	}
	if n.kind != kind {
		return node{}, errUnexpected
	}
	return n, nil
}

// readJSON reads one value. Unlike encoding/json's maps, it keeps the order of keys, and duplicates, so
// that the caller can reject them.
func readJSON(dec *json.Decoder) (node, error) {
	token, err := dec.Token()
	if err != nil {
		return node{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		return readJSONInside(dec, t == '{')
	case string:
		return node{kind: isText, text: t}, nil
	case json.Number:
		return node{kind: isNumber, text: t.String()}, nil
	case bool:
		return node{kind: isBool, text: fmt.Sprint(t)}, nil
	default:
		return node{kind: isNull, text: "null"}, nil
	}
}

// readJSONInside reads the rest of a list or a mapping.
func readJSONInside(dec *json.Decoder, mapping bool) (node, error) {
	out := node{kind: isList}
	if mapping {
		out.kind = isMapping
	}
	for dec.More() {
		var name string
		if mapping {
			key, err := dec.Token()
			if err != nil {
				return node{}, err
			}
			name, _ = key.(string) // the decoder rejects other keys
		}
		value, err := readJSON(dec)
		if err != nil {
			return node{}, err
		}
		if mapping {
			out.pairs = append(out.pairs, pair{key: name, value: value})
		} else {
			out.items = append(out.items, value)
		}
	}
	_, err := dec.Token()
	return out, err
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
