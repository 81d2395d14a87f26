package config

import "strings"

// Setting is one row of the table: everything about a setting except its value.
type Setting struct {
	Name        string // as in the file and in error messages: "flush.linger"
	Alias       string // a short flag for it, or ""
	Doc         string // one line of Markdown
	Default     string // as a person writes it; "" if Load derives it
	Documented  string // Markdown for the default, where the bare value does not say enough
	Secret      bool   // nothing ever shows its values
	Overridable bool   // a namespace may have a value of its own
	Live        bool   // a running daemon can change it: see Reload

	codec  codec
	derive func(c *Config, p places) // computes a default that depends on other settings or the platform
}

// codec reads and prints the values of one setting.
type codec struct {
	kind     string // the word for a value in --help: "duration"
	expected string // completes "expected …"
	parse    func(c *Config, v node, p places) error
	print    func(c *Config) string
	copy     func(to, from *Config)   // also of a value that parse would refuse by now
	show     func(text string) string // hides the secret parts of a rejected value; nil shows it all
}

// key returns the name of the setting in the file.
func (s Setting) key() string { return s.Name }

// Env returns the name of the environment variable of the setting.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// Flag returns the name of the setting's flag, without the dashes before it.
func (s Setting) Flag() string { return FlagName(s.Name) }

// Kind returns the word for the setting's values in a usage line.
func (s Setting) Kind() string { return s.codec.kind }

// FlagName returns the name of the flag ("flush-drain-timeout") for any spelling of a setting's name
// ("flush.drain_timeout").
func FlagName(name string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(name)
}

// find returns the row of a setting.
func find(table []Setting, name string) (Setting, bool) {
	for _, s := range table {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

// isGroup reports whether some settings have name before their dot, or had it in an earlier build.
func isGroup(table []Setting, name string) bool {
	for _, s := range table {
		if strings.HasPrefix(s.Name, name+".") {
			return true
		}
	}
	for former := range gone() {
		if strings.HasPrefix(former, name+".") {
			return true
		}
	}
	return false
}

func names(table []Setting) []string {
	out := make([]string, len(table))
	for i, s := range table {
		out[i] = s.Name
	}
	return out
}
