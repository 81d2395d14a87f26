package config

import (
	"slices"
	"strings"
)

// Setting is one row of the table: everything about a setting except its value.
type Setting struct {
	Name        string // in the file and in error messages: "flush.linger"
	Alias       string // a short flag, or ""
	Doc         string // one line of Markdown
	Default     string // as users write it; "" if Load derives it
	Documented  string // the default as Markdown, if the bare value does not say enough
	Secret      bool   // its values are never shown
	Overridable bool   // a namespace may override it
	Live        bool   // a running daemon can change it: see Reload
	SecretFile  bool   // its value is a file that holds a secret

	codec  codec
	derive func(c *Config, p places) // computes a default that depends on other settings or the platform
	isName func(value string) bool   // reports whether a value is a name, and no path; nil: none is
}

type codec struct {
	kind     string // the kind of value in --help: "duration"
	expected string // completes "expected …"
	parse    func(c *Config, v node, p places) error
	print    func(c *Config) string
	same     func(a, b *Config) bool
	copy     func(to, from *Config)   // also copies a value that parse would now reject
	show     func(text string) string // hides the secret parts of a rejected value; nil shows everything
}

// Env returns the setting's environment variable.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// Flag returns the name of the setting's flag, without dashes.
func (s Setting) Flag() string { return FlagName(s.Name) }

// Kind returns the word for the setting's values in a usage line.
func (s Setting) Kind() string { return s.codec.kind }

// IsPath reports whether a value is a path, which may be relative to the directory of the command.
func (s Setting) IsPath(value string) bool {
	return s.codec.kind == "path" && (s.isName == nil || !s.isName(value))
}

// FlagName returns the flag's name ("flush-drain-timeout") for any spelling of a setting's name
// ("flush.drain_timeout").
func FlagName(name string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(name)
}

func find(table []Setting, name string) (Setting, bool) {
	for _, s := range table {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

func isGroup(table []Setting, name string) bool {
	return slices.ContainsFunc(table, func(s Setting) bool { return strings.HasPrefix(s.Name, name+".") })
}

func names(table []Setting) []string {
	out := make([]string, len(table))
	for i, s := range table {
		out[i] = s.Name
	}
	return out
}
