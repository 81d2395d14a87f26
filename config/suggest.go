package config

import (
	"slices"
	"strings"
)

// Suggest returns the candidate that a misspelled name most likely means, or "" if none is close. It
// ignores separators and case. It also recognises a name without its group, if only one group has it.
func Suggest(name string, candidates []string) string {
	plain := strings.ToLower(FlagName(name))
	best, least := "", max(2, len(plain)/5)+1
	var suffixed []string
	for _, candidate := range candidates {
		other := strings.ToLower(FlagName(candidate))
		if d := distance(plain, other); d < least {
			best, least = candidate, d
		}
		if strings.HasSuffix(other, "-"+plain) {
			suffixed = append(suffixed, candidate)
		}
	}
	if best == "" && len(suffixed) == 1 {
		return suffixed[0]
	}
	return best
}

func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current := make([]int, len(b)+1)
		current[0] = i
		for j := 1; j <= len(b); j++ {
			replace := previous[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, replace)
		}
		previous = current
	}
	return previous[len(b)]
}

// looksSecret reports whether the value of an unknown setting may be a secret, judging by its name.
func looksSecret(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc([]string{"token", "secret", "password", "passwd", "header", "auth", "key", "credential", "cookie"},
		func(word string) bool { return strings.Contains(lower, word) })
}
