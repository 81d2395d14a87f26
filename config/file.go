package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// atLine returns the error about a line that is not YAML, or not YAML that botwired accepts.
func atLine(line int, expected string) error {
	return &Error{Source: Source{Line: line}, Expected: expected}
}

// parseYAML parses one document; an empty one is null. It rejects anchors, aliases, merge keys and tags
// instead of supporting them half-way. Its errors are of type *Error, with only the line set.
func parseYAML(content []byte) (node, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	// readYAML finds duplicates after flattening, where "a: {b: 1}" and "a.b: 2" are the same key.
	parsed, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return node{}, yamlFault(err)
	}
	var root ast.Node
	for i, doc := range parsed.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); directive || doc.Body == nil && i == 0 {
			continue
		}
		if root != nil || i > 0 && doc.Body == nil {
			return node{}, atLine(doc.Start.Position.Line, "one YAML document")
		}
		root = doc.Body
	}
	if root == nil {
		return node{kind: isNull}, nil
	}
	return fromYAML(root)
}

func yamlFault(err error) error {
	var fault yaml.Error
	if !errors.As(err, &fault) || fault.GetToken() == nil {
		return atLine(1, "YAML")
	}
	if said := fault.GetMessage(); strings.Contains(said, "\t") || strings.Contains(said, "tab character") {
		return atLine(fault.GetToken().Position.Line, "spaces where this line has a tab: YAML takes no tab for indentation")
	}
	words := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(fault.GetMessage(), "…")
	return atLine(fault.GetToken().Position.Line, "YAML; "+words)
}

func fromYAML(n ast.Node) (node, error) {
	line := n.GetToken().Position.Line
	scalar := func(k nodeKind) (node, error) {
		return node{kind: k, text: n.GetToken().Value, line: line}, nil
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return scalar(isText)
	case *ast.LiteralNode:
		return node{kind: isText, text: n.Value.Value, line: line}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return scalar(isNumber)
	case *ast.BoolNode:
		return scalar(isBool)
	case *ast.NullNode:
		return scalar(isNull)
	case *ast.SequenceNode:
		return sequence(n, line)
	case *ast.MappingNode:
		return mappingOf(n.Values, line)
	case *ast.MappingValueNode:
		return mappingOf([]*ast.MappingValueNode{n}, line)
	}
	return node{}, atLine(line, "plain YAML without anchors, aliases, merge keys and tags")
}

func sequence(n *ast.SequenceNode, line int) (node, error) {
	out := node{kind: isList, line: line}
	for _, value := range n.Values {
		item, err := fromYAML(value)
		if err != nil {
			return node{}, err
		}
		out.items = append(out.items, item)
	}
	return out, nil
}

func mappingOf(values []*ast.MappingValueNode, line int) (node, error) {
	out := node{kind: isMapping, line: line}
	for _, each := range values {
		key, ok := each.Key.(*ast.StringNode)
		if !ok {
			return node{}, atLine(each.Key.GetToken().Position.Line, "a name before the colon")
		}
		value, err := fromYAML(each.Value)
		if err != nil {
			return node{}, err
		}
		out.pairs = append(out.pairs, pair{key: key.Value, line: key.GetToken().Position.Line, value: value})
	}
	return out, nil
}

// flatten turns nested keys into dotted ones. It descends only into groups of settings: a mapping that
// is itself a setting's value stays whole. The caller checks the names. A group may be empty, because
// all its lines may be commented out.
func flatten(table []Setting, n node) []pair {
	var leaves []pair
	for _, p := range n.pairs {
		if !isGroup(table, p.key) || p.value.kind != isMapping && p.value.kind != isNull {
			leaves = append(leaves, p)
			continue
		}
		inside := node{kind: isMapping, pairs: make([]pair, len(p.value.pairs))}
		for i, inner := range p.value.pairs {
			inner.key = p.key + "." + inner.key
			inside.pairs[i] = inner
		}
		leaves = append(leaves, flatten(table, inside)...)
	}
	return leaves
}

func repeated(leaves []pair) (pair, bool) {
	seen := make(map[string]bool, len(leaves))
	for _, leaf := range leaves {
		if seen[leaf.key] {
			return leaf, true
		}
		seen[leaf.key] = true
	}
	return pair{}, false
}

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
