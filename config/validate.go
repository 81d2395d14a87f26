package config

import (
	"fmt"
	"slices"
	"strings"
)

// validate checks the settings against each other. Its errors name every setting involved.
func (l *loader) validate() {
	c := &l.config
	if c.Auth.TokenFile != "" {
		if _, err := readToken(c.Auth.TokenFile); err != nil {
			l.refuse("auth.token_file", err.Error())
		}
	} else if !c.OnLoopback() && !l.isFaulty("auth.token_file") {
		l.refuse("listen", "a loopback address (localhost, 127.0.0.0/8 or ::1), or auth.token_file to be set as well")
	}
	if slices.ContainsFunc(c.Namespaces, Override.seals) && c.Seal.KeyFile == "" && !l.isFaulty("seal.key_file") { // guard 23.1
		l.refuse("namespaces", "seal.key_file to be set as well, as an entry has sealed: true")
	}
	if !l.isFaulty("namespaces") {
		c.shadowed(func(i int, o *Override, setting string) {
			if setting == "sealed" && o.seals() { // guard 23.60
				l.report(&Error{Setting: "namespaces", Item: entryName(i) + ", sealed", Value: "true", Source: l.entrySource(o),
					Expected: fmt.Sprintf("a namespace to seal: an earlier entry has sealed: false for every one that %s matches. Put this entry before it", o.Match)})
			}
		})
	}
	if none := kinds[c.Upstream.Kind()].noHeaders; none != "" && len(c.Upstream.Headers) > 0 {
		l.refuse("upstream.headers", none)
	}
}

// shadowWarnings returns warnings about settings that count for no namespace.
func (l *loader) shadowWarnings() (warnings []string) {
	l.config.shadowed(func(i int, o *Override, setting string) {
		warnings = append(warnings, fmt.Sprintf("namespaces: %s, %s = %s (%s) counts for no namespace: an earlier entry has another value for every one that %s matches",
			entryName(i), setting, o.value(setting), l.entrySource(o), o.Match))
	})
	return warnings
}

func (l *loader) entrySource(o *Override) Source {
	from := l.sources["namespaces"]
	if from.Layer == FromFile {
		from.Line = o.Line
	}
	return from
}

// isFaulty reports whether a value of the setting was rejected. Then the value in force is not the
// user's, and no other setting is rejected because of it.
func (l *loader) isFaulty(name string) bool {
	return slices.ContainsFunc(l.faults, func(e *Error) bool { return e.Setting == name })
}

// RequireDataDir returns an *Error if data_dir has no value: only a command that uses the directory
// needs one.
func (l *Loaded) RequireDataDir() error {
	if l.Config.DataDir != "" {
		return nil
	}
	return &Error{Setting: "data_dir", Source: Source{Layer: FromDefault},
		Expected: "a directory, as HOME names no absolute path for the default: set data_dir (--data-dir or BOTWIRED_DATA_DIR)"}
}

func (l *loader) refuse(name, expected string) {
	s, _ := find(l.table, name)
	value := ""
	if printed := s.codec.print(&l.config); printed != "" {
		value = s.shown(node{text: printed})
	}
	from := l.sources[name]
	l.report(&Error{Setting: name, Value: value, Source: from, Expected: expected})
}

// hint returns the [Error.Expected] for an unknown name: it suggests a similar candidate. dashes is the
// prefix of the names.
func hint(expected, dashes, name string, candidates []string) string {
	if near := Suggest(name, candidates); near != "" {
		expected += "; did you mean " + dashes + near + "?"
	}
	return expected
}

func unknown(name string, v node, from Source, table []Setting) *Error {
	var expected string
	switch {
	case slices.Contains(names(namespaceSettings()), name):
		expected = "it in an entry of namespaces: a namespace has this setting, and the daemon as a whole does not"
	case isGroup(table, name):
		expected = "a mapping of settings below it"
	default:
		expected = hint(`one of the settings that "botwired config" lists`, "", name, names(table))
	}
	return &Error{Setting: shorten(name), Value: unknownValue(name, v), Source: from, Expected: expected}
}

func unknownVariable(name, value string, table []Setting) *Error {
	variables := []string{EnvFile}
	meant := name
	for _, s := range table {
		variables = append(variables, s.Env())
		if s.Alias != "" && name == (Setting{Name: s.Alias}).Env() {
			meant = s.Env()
		}
	}
	expected := hint(`a variable of one of the settings that "botwired config" lists`, "", meant, variables)
	return &Error{Setting: shorten(name), Value: unknownValue(name, node{text: value}), Source: Source{Layer: FromEnvironment}, Expected: expected}
}

// UnknownFlag returns the error for an unknown flag. value is "" if the caller does not know it; known
// lists the names of the existing flags.
func UnknownFlag(name, value string, known []string) *Error {
	e := &Error{Setting: shorten(name), Source: Source{Layer: FromFlag},
		Expected: hint("one of the flags that --help lists", "--", FlagName(strings.TrimLeft(name, "-")), known)}
	if value != "" {
		e.Value = unknownValue(name, node{text: value})
	}
	return e
}

func unknownValue(name string, v node) string {
	if looksSecret(name) || v.kind == isMapping || v.kind == isList {
		return redacted
	}
	return shorten(node{kind: v.kind, text: hideURLSecrets(v.text)}.String())
}

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
