package config

import (
	"runtime"
	"slices"
)

// Reloaded is the result of a reload.
type Reloaded struct {
	// Loaded is the configuration now in force: the new values of the settings that a running daemon
	// can change, and the old values of all others.
	Loaded *Loaded
	// Changed names the settings whose new values are in force. Restart names the settings whose new
	// values need a restart.
	Changed, Restart []string
}

// Reload applies the settings of next that a running daemon can change. It validates the result as Load
// does: a listener off loopback keeps its token, even if the next configuration listens elsewhere. The
// error is of type *Error; then nothing may change.
func Reload(running, next *Loaded) (*Reloaded, error) {
	l := &loader{
		table:   Settings(),
		config:  next.Config,
		places:  places{goos: runtime.GOOS, getenv: func(string) string { return "" }}, // all paths are absolute
		sources: map[string]Source{},
	}
	out := &Reloaded{Changed: []string{}} // not null in the log
	resealed := !slices.Equal(running.Config.Sealing(), next.Config.Sealing())
	for _, s := range l.table {
		from := next
		if s.Name == "namespaces" && resealed { // guard 23.2
			s.Live = false
		}
		if !s.Live {
			from = running
			s.codec.copy(&l.config, &running.Config)
		}
		l.sources[s.Name] = from.Source(s.Name)
		switch {
		case s.codec.same(&running.Config, &next.Config):
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
		out.Loaded.Values[i].Default = next.Values[i].Default // it knows the user's home
	}
	return out, nil
}
