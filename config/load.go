package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Sources holds everything from which Load makes a configuration. Load only reads files that are named
// here or by the settings.
type Sources struct {
	Flags    map[string]string // the command line's values, by setting name
	Environ  []string          // as from os.Environ
	File     string            // the value of --config; "" means BOTWIRED_CONFIG or the default path
	Defaults map[string]string // by setting name; for one command, they replace those of the table
	Socket   Socket            // from the service manager; zero if there is none
}

// Socket is a listening socket that the service manager passed to the process.
type Socket struct {
	Address string // as in the setting listen
	Name    string // its name in the service manager, such as botwired.socket
}

// Loaded is a configuration with the source of each value.
type Loaded struct {
	Config   Config
	File     string   // the configuration file that was read, or ""
	Values   []Value  // one for each setting, in the order of Settings
	Warnings []string // for the log, one line each
	Author   string   // BOTWIRED_AUTHOR, which names the program in the history; "" if it is not set
	UserDir  string   // the user's own directory for botwired's state, whatever data_dir is; "" without a home
}

// Value is one setting in force.
type Value struct {
	Name    string
	Value   string // as users write it; secrets are redacted
	Default string // the Value without flags, variables and a file
	Source  Source
}

// Source is where a value came from.
type Source struct {
	Layer Layer
	Name  string // the path of the file, or the name of the socket, variable or flag
	Line  int    // in the file, from 1
	Match string // the pattern of the entry of namespaces, for a value of one; or ""
}

// Layer is a kind of source.
type Layer string

// The layers, lowest precedence first.
const (
	FromDefault     Layer = "default"
	FromSocket      Layer = "socket" // from the service manager
	FromFile        Layer = "file"
	FromEnvironment Layer = "environment"
	FromFlag        Layer = "flag"
)

// String returns "default", "socket botwired.socket", "file /path:3", "environment
// BOTWIRED_LISTEN" or "flag --listen", and ", match: prod-*" behind it for an entry of namespaces.
func (o Source) String() string {
	if o.Match != "" {
		match := o.Match
		o.Match = ""
		return o.String() + ", match: " + match
	}
	switch {
	case o.Name == "":
		return string(o.Layer)
	case o.Line != 0:
		return fmt.Sprintf("%s %s:%d", o.Layer, o.Name, o.Line)
	default:
		return string(o.Layer) + " " + o.Name
	}
}

// Source returns the source of a setting's value, or the zero Source for an unknown setting.
func (l *Loaded) Source(name string) Source {
	for _, v := range l.Values {
		if v.Name == name {
			return v.Source
		}
	}
	return Source{}
}

// Load makes a configuration from its sources. Its errors are of type *Error.
func Load(src Sources) (*Loaded, error) {
	loaded, faults := Check(src)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return loaded, nil
}

// Check loads like [Load], for users who correct a configuration: it goes on after an error. If there
// are errors, Loaded has the valid settings, and a lower layer's value for each invalid one.
func Check(src Sources) (*Loaded, []*Error) {
	env := newEnvironment(src.Environ, runtime.GOOS)
	l := &loader{
		src:     src,
		env:     env,
		table:   Settings(),
		places:  places{goos: runtime.GOOS, getenv: env.get},
		sources: map[string]Source{},
	}
	l.readDefaults()
	l.readSocket()
	l.readFile()
	l.readEnvironment()
	l.readFlags()
	l.derive()
	l.validate()
	return l.loaded(), l.faults
}

type loader struct {
	src     Sources
	env     environment
	table   []Setting
	places  places
	config  Config
	file    string            // the file that was read
	sources map[string]Source // by setting name
	faults  []*Error
}

func (l *loader) report(fault *Error) { l.faults = append(l.faults, fault) }

func (l *loader) assign(s Setting, v node, from Source) {
	at := l.places
	if from.Layer == FromFile {
		at.base = filepath.Dir(from.Name)
	}
	err := s.codec.parse(&l.config, v, at)
	if err == nil {
		l.sources[s.Name] = from
		return
	}
	l.faults = append(l.faults, explain(s, v, from, err)...)
}

func (l *loader) readDefaults() {
	for _, s := range slices.Concat(l.table, namespaceSettings()) {
		value := s.Default
		if other, ok := l.src.Defaults[s.Name]; ok {
			value = other
		}
		l.sources[s.Name] = Source{Layer: FromDefault}
		if value != "" { // else derive sets it, or the zero value is the default
			l.assign(s, node{text: value, raw: true}, Source{Layer: FromDefault})
		}
	}
}

func (l *loader) readSocket() {
	if s, ok := find(l.table, "listen"); ok && l.src.Socket.Address != "" {
		l.assign(s, node{text: l.src.Socket.Address, raw: true}, Source{Layer: FromSocket, Name: l.src.Socket.Name})
	}
}

func (l *loader) readFile() {
	name, named := l.src.File, Source{Layer: FromFlag, Name: "--config"}
	if name == "" {
		name, named = l.env.get(EnvFile), Source{Layer: FromEnvironment, Name: EnvFile}
		if _, set := l.env.values[EnvFile]; name == "" && set {
			l.report(&Error{Setting: EnvFile, Value: `""`, Source: named, Expected: "the path of a file, or no such variable"})
			return
		}
	}
	if name == "" {
		name, named = l.places.configFile(), Source{Layer: FromDefault}
	}
	if name == "" {
		return
	}
	fault := &Error{Setting: "configuration file", Value: strconv.Quote(name), Source: named}
	path, err := l.places.absolute(name)
	if err != nil {
		fault.Expected = err.Error()
		l.report(fault)
		return
	}
	content, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && named.Layer == FromDefault:
	case err != nil:
		fault.Value, fault.Expected = strconv.Quote(path), fmt.Sprintf("a readable file, which gives: %v", err)
		l.report(fault)
	default:
		l.file = path
		l.readYAML(path, content)
	}
}

func (l *loader) readYAML(path string, content []byte) {
	from := Source{Layer: FromFile, Name: path}
	root, err := parseYAML(content)
	if err == nil && root.kind != isMapping && root.kind != isNull {
		err = atLine(root.line, "a mapping of settings")
	}
	if fault, ok := errors.AsType[*Error](err); ok {
		from.Line = fault.Source.Line
		fault.Source = from
		l.report(fault)
		return
	}
	first := make(map[string]int) // the line of each setting
	for _, leaf := range flatten(l.table, root) {
		from.Line = leaf.line
		before := first[leaf.key]
		switch s, ok := find(l.table, leaf.key); {
		case !ok:
			l.report(unknown(leaf.key, leaf.value, from, l.table))
		case before != 0:
			l.report(&Error{Setting: s.Name, Value: s.shown(leaf.value), Source: from,
				Expected: fmt.Sprintf("each setting once, but line %d has it already", before)})
		default:
			l.assign(s, leaf.value, from)
		}
		if before == 0 {
			first[leaf.key] = leaf.line
		}
	}
}

func (l *loader) readEnvironment() {
	byVariable := make(map[string]Setting, len(l.table))
	for _, s := range l.table {
		byVariable[s.Env()] = s
	}
	for _, name := range l.env.names {
		value := l.env.values[name]
		if len(name) <= len(envPrefix) || name[:len(envPrefix)] != envPrefix ||
			name == EnvFile || isInjected(name, value) || slices.Contains(noSettings, name) {
			continue
		}
		if s, ok := byVariable[name]; ok {
			l.assign(s, node{text: value, raw: true}, Source{Layer: FromEnvironment, Name: name})
		} else {
			l.report(unknownVariable(name, value, l.table))
		}
	}
}

func (l *loader) readFlags() {
	for _, name := range slices.Sorted(maps.Keys(l.src.Flags)) {
		v := node{text: l.src.Flags[name], raw: true}
		from := Source{Layer: FromFlag, Name: "--" + FlagName(name)}
		if s, ok := find(l.table, name); ok {
			l.assign(s, v, from)
		} else {
			l.report(unknown(name, v, from, l.table))
		}
	}
}

func (l *loader) derive() {
	for _, s := range l.table {
		_, replaced := l.src.Defaults[s.Name]
		if s.derive != nil && !replaced && l.sources[s.Name].Layer == FromDefault {
			s.derive(&l.config, l.places)
			if s.Name == "data_dir" && l.places.unitDirectory(envStateDirectory) != "" {
				l.sources[s.Name] = Source{Layer: FromEnvironment, Name: envStateDirectory}
			}
		}
	}
}

// defaults returns the default configuration. The quota's defaults are those for the present
// upstream.url.
func (l *loader) defaults() *Config {
	d := *l
	d.config, d.sources, d.faults = Config{}, map[string]Source{}, nil
	d.readDefaults()
	url := d.config.Upstream.URL
	d.config.Upstream.URL = l.config.Upstream.URL
	d.derive()
	d.config.Upstream.URL = url
	return &d.config
}

func (l *loader) loaded() *Loaded {
	out := &Loaded{Config: l.config, File: l.file, Warnings: append(l.modeWarnings(), l.shadowWarnings()...), Author: l.env.get(envAuthor), UserDir: l.places.userDir()}
	defaults := l.defaults()
	for _, s := range l.table {
		out.Values = append(out.Values, Value{
			Name: s.Name, Value: s.codec.print(&l.config), Default: s.codec.print(defaults), Source: l.sources[s.Name],
		})
	}
	return out
}

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
		if s.Live && s.derive != nil && next.Source(s.Name).Layer == FromDefault {
			s.codec.copy(&l.config, &Config{})
			s.derive(&l.config, l.places) // for the upstream.url in force: it comes first in the table
		}
		same := s.codec.same(&running.Config, &l.config)
		if !s.Live {
			from = running
			s.codec.copy(&l.config, &running.Config)
		}
		l.sources[s.Name] = from.Source(s.Name)
		switch {
		case same:
		case s.Live:
			out.Changed = append(out.Changed, s.Name)
		default:
			out.Restart = append(out.Restart, s.Name)
		}
	}
	if l.validate(); len(l.faults) > 0 { // guard 22.22
		return nil, l.faults[0]
	}
	out.Loaded = l.loaded()
	out.Loaded.File, out.Loaded.Warnings = next.File, next.Warnings
	for i := range out.Loaded.Values {
		out.Loaded.Values[i].Default = next.Values[i].Default // it knows the user's home
	}
	return out, nil
}

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

// envAuthor is [Loaded].Author. The packages for agents read it, too.
const envAuthor = "BOTWIRED_AUTHOR"

// noSettings are variables that are no settings: cobra reads those of shell completion.
var noSettings = []string{"BOTWIRED_ACTIVE_HELP", "BOTWIRED_COMPLETION_DESCRIPTIONS", envAuthor}

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
