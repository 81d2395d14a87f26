package config

import (
	"maps"
	"runtime"
)

// Reloaded is the outcome of a reload.
type Reloaded struct {
	// Loaded is the configuration in force from now on: the settings that a running daemon
	// can change as they were loaded, and all others as they were.
	Loaded *Loaded
	// Changed and Restart name the settings with another value: those that are in force
	// now, and those that wait for a restart.
	Changed, Restart []string
}

// Reload lays the settings of next that a running daemon can change over the running
// configuration. It checks the settings of the outcome against each other, as Load does: a
// listener off loopback does not lose its token because the next configuration would
// listen elsewhere. The error is of type *Error; then nothing is to change.
func Reload(running, next *Loaded) (*Reloaded, error) {
	l := &loader{
		table:   Settings(),
		config:  next.Config,
		places:  places{goos: runtime.GOOS, getenv: func(string) string { return "" }}, // all paths are absolute
		sources: map[string]Source{},
	}
	out := &Reloaded{Changed: []string{}} // for a log: none is no null
	for _, s := range l.table {
		from := next
		if !s.Live {
			from = running
			s.codec.copy(&l.config, &running.Config)
		}
		l.sources[s.Name] = from.Source(s.Name)
		switch {
		case s.same(&running.Config, &next.Config):
		case s.Live:
			out.Changed = append(out.Changed, s.Name)
		default:
			out.Restart = append(out.Restart, s.Name)
		}
	}
	if l.validate(); len(l.faults) > 0 { // guard 22.22
		return nil, l.faults[0]
	}
	resolveOverrides(&l.config, l.places)
	out.Loaded = l.loaded()
	out.Loaded.File, out.Loaded.Warnings = next.File, next.Warnings
	for i := range out.Loaded.Values {
		out.Loaded.Values[i].Default = next.Values[i].Default // which knows the user's home
	}
	return out, nil
}

// same reports whether two configurations have the same value of the setting.
func (s Setting) same(a, b *Config) bool {
	if s.Secret { // which does not print its values
		return maps.Equal(a.Upstream.Headers, b.Upstream.Headers)
	}
	return s.codec.print(a) == s.codec.print(b)
}
