package config

import (
	"encoding/binary"
	"path"
	"slices"
	"strings"
)

const (
	// namespaceChars are the characters of a namespace's name.
	namespaceChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	// maxNamespace is the length of the longest name of a namespace.
	maxNamespace = 64
	// maxStates limits the search of counts: patterns with many stars have more states than anybody waits for.
	maxStates = 2_000
)

// glob is a pattern of path.Match in parts.
type glob []part

type part struct {
	isStar bool
	chars  uint64 // those that the part matches: bit i stands for namespaceChars[i]
}

// parseGlob parses a pattern that path.Match accepts. It knows no backslash.
func parseGlob(pattern string) (g glob) {
	for pattern != "" {
		n := 1
		if pattern[0] == '[' {
			n = strings.IndexByte(pattern, ']') + 1
		}
		p := part{isStar: pattern[0] == '*'}
		for i := range namespaceChars {
			if fits, _ := path.Match(pattern[:n], namespaceChars[i:i+1]); fits {
				p.chars |= 1 << i
			}
		}
		g, pattern = append(g, p), pattern[n:]
	}
	return g
}

// rule gives a value to the namespaces that a pattern matches.
type rule struct {
	pattern glob
	value   string
}

// position says that the characters read so far fit the first parts of a rule's pattern.
type position struct{ rule, parts int }

// counts reports whether the last of the rules counts: whether there is a namespace that it matches and whose value,
// by the first rule that matches it, is that of the last. It walks through the names, shortest first, and
// knows of each only how far it fits the patterns. Beyond maxStates it gives up and says true.
func counts(rules []rule) bool {
	var start []position
	for i := range rules {
		start = rules[i].reach(start, position{i, 0})
	}
	seen := map[string]bool{}
	level := [][]position{start}
	for range maxNamespace {
		var next [][]position
		for _, at := range level {
			for char := range namespaceChars {
				to := step(rules, at, char)
				key := keyOf(to)
				if len(to) == 0 || seen[key] {
					continue
				}
				if len(seen) == maxStates || decides(rules, to) {
					return true
				}
				seen[key] = true
				next = append(next, to)
			}
		}
		level = next
	}
	return false
}

// step returns the positions after one more character; none if no name that the last rule matches goes on with it.
func step(rules []rule, at []position, char int) (to []position) {
	last := len(rules) - 1
	for _, p := range slices.Backward(at) {
		if p.rule != last && len(to) == 0 {
			return nil
		}
		pattern := rules[p.rule].pattern
		switch {
		case p.parts == len(pattern):
		case pattern[p.parts].isStar:
			to = rules[p.rule].reach(to, p)
		case pattern[p.parts].chars>>char&1 == 1:
			to = rules[p.rule].reach(to, position{p.rule, p.parts + 1})
		}
	}
	slices.SortFunc(to, func(a, b position) int {
		if a.rule != b.rule {
			return a.rule - b.rule
		}
		return a.parts - b.parts
	})
	return slices.Compact(to)
}

// reach adds a position, and those behind the stars that follow, as a star may match nothing.
func (r rule) reach(to []position, p position) []position {
	to = append(to, p)
	for p.parts < len(r.pattern) && r.pattern[p.parts].isStar {
		p.parts++
		to = append(to, p)
	}
	return to
}

// decides reports whether the last rule matches a name at these positions, and gives it its value.
func decides(rules []rule, at []position) bool {
	ended := slices.DeleteFunc(slices.Clone(at), func(p position) bool { return p.parts < len(rules[p.rule].pattern) })
	last := len(rules) - 1
	return len(ended) > 0 && ended[len(ended)-1].rule == last && rules[ended[0].rule].value == rules[last].value
}

func keyOf(at []position) string {
	var key []byte
	for _, p := range at {
		key = binary.AppendVarint(binary.AppendVarint(key, int64(p.rule)), int64(p.parts))
	}
	return string(key)
}
