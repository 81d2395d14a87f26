package config

import (
	"regexp"
	"strings"
)

const (
	envPrefix = "BOTWIRED_"
	// EnvFile is the environment variable that names the configuration file.
	EnvFile = "BOTWIRED_CONFIG"
)

// environment is a copy of the process's environment variables. If a name occurs twice, the first one
// counts, as with os.Getenv.
type environment struct {
	names  []string // in order
	values map[string]string
	fold   bool // names are case-insensitive, as on Windows
}

func newEnvironment(environ []string, goos string) environment {
	e := environment{values: map[string]string{}, fold: goos == "windows"}
	for _, each := range environ {
		name, value, _ := strings.Cut(each, "=")
		name = e.spelling(name)
		if _, twice := e.values[name]; twice {
			continue
		}
		e.names = append(e.names, name)
		e.values[name] = value
	}
	return e
}

func (e environment) spelling(name string) string {
	if e.fold {
		return strings.ToUpper(name)
	}
	return name
}

func (e environment) get(name string) string { return e.values[e.spelling(name)] }

// noSettings are variables that other parts read: cobra those of shell completion, and the Python package
// the last one.
var noSettings = []string{"BOTWIRED_ACTIVE_HELP", "BOTWIRED_COMPLETION_DESCRIPTIONS", "BOTWIRED_AUTHOR"}

// isInjected reports whether a variable describes a network service called botwired or
// botwired-something. Kubernetes and compose links inject such variables into every container beside
// the service.
func isInjected(name, value string) bool {
	switch {
	case regexp.MustCompile(`^BOTWIRED_([A-Z0-9_]+_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$`).MatchString(name),
		regexp.MustCompile(`^BOTWIRED_([A-Z0-9_]+_)?PORT_[0-9]+_(TCP|UDP|SCTP)(_(START|END|PROTO|PORT|PORT_START|PORT_END|ADDR))?$`).MatchString(name):
		return true
	case regexp.MustCompile(`^BOTWIRED_([A-Z0-9_]+_)?PORT$`).MatchString(name):
		// A user who writes a bare number means the setting listen.
		return regexp.MustCompile(`^(tcp|udp|sctp)://`).MatchString(value)
	case strings.HasPrefix(name, "BOTWIRED_ENV_"), name == "BOTWIRED_NAME" && strings.HasPrefix(value, "/"):
		return true // compose links only
	}
	return false
}
