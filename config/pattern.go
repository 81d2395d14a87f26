package config

import (
	"path"
	"strings"
)

// maxNamespace is the length of the longest name of a namespace.
const maxNamespace = 64

// matchesMore reports whether a pattern matches a namespace that none of the others matches. It walks through
// the names, shortest first, and knows of each only how far it fits the patterns. Beyond maxWalk such states it
// gives up and says true.
func matchesMore(pattern string, others []string) bool {
	all := []elements{split(pattern)}
	for _, other := range others {
		all = append(all, split(other))
	}
	start := make([]string, len(all))
	for i, each := range all {
		start[i] = each.skip(strings.Repeat("0", len(each)+1), 0)
	}
	seen := map[string]bool{}
	states := [][]string{start}
	for range maxNamespace {
		var next [][]string
		for _, state := range states {
			for i := range len(namespaceChars) {
				to := make([]string, len(all))
				for j, each := range all {
					to[j] = each.step(state[j], namespaceChars[i:i+1])
				}
				name := strings.Join(to, " ")
				if seen[name] || !strings.Contains(to[0], "1") {
					continue
				}
				if len(seen) == maxWalk || isOnlyFirst(to) {
					return true
				}
				seen[name] = true
				next = append(next, to)
			}
		}
		states = next
	}
	return false
}

const maxWalk = 10_000

// isOnlyFirst reports whether a name fits the first pattern to its end, and no other.
func isOnlyFirst(state []string) bool {
	for i, each := range state {
		if strings.HasSuffix(each, "1") != (i == 0) {
			return false
		}
	}
	return true
}

// elements is a pattern in parts: "*", or what matches one character. A state says with a "1" at i that what
// was read so far fits the first i parts.
type elements []string

func split(pattern string) (out elements) {
	for pattern != "" {
		n := 1
		if pattern[0] == '[' {
			n = strings.IndexByte(pattern[1:], ']') + 2
		}
		out, pattern = append(out, pattern[:n]), pattern[n:]
	}
	return out
}

// skip sets a position, and those behind the stars that follow it, as a star may match nothing.
func (e elements) skip(state string, at int) string {
	state = state[:at] + "1" + state[at+1:]
	if at < len(e) && e[at] == "*" {
		return e.skip(state, at+1)
	}
	return state
}

func (e elements) step(state, char string) string {
	next := strings.Repeat("0", len(state))
	for i, part := range e {
		if state[i] != '1' {
			continue
		}
		if part == "*" {
			next = e.skip(next, i)
		} else if fits, _ := path.Match(part, char); fits {
			next = e.skip(next, i+1)
		}
	}
	return next
}
