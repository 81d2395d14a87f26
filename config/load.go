package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// Sources holds everything that Load makes a configuration of. Load reads no other files
// than those named here and by the settings.
type Sources struct {
	Flags    map[string]string // the command line's values, by setting name
	Environ  []string          // as of os.Environ
	File     string            // the value of --config; "" leaves it to BOTWIRED_CONFIG and the default place
	Defaults map[string]string // by setting name; they replace those of the table for one command
	Socket   Socket            // that the service manager has passed to the process; the zero Socket if it has not
}

// Socket is a listener that a process has from its service manager.
type Socket struct {
	Address string // as the setting listen has it
	Name    string // that the service manager gives it, such as botwired.socket
}

// Loaded is a configuration with the source of each of its values.
type Loaded struct {
	Config   Config
	File     string   // the configuration file that was read; "" if there is none
	Values   []Value  // one for each setting, in the order of Settings
	Warnings []string // for the log, one line each
}

// Value is one setting in force.
type Value struct {
	Name    string
	Value   string // as a person writes it; secrets are redacted
	Default string // what Value would be without a flag, a variable and a file
	Source  Source
}

// Source is where a value came from.
type Source struct {
	Layer Layer
	Name  string // the file's path, the variable or the flag
	Line  int    // in the file, from 1
}

// Layer is a kind of source.
type Layer string

// The layers, in ascending order of precedence.
const (
	FromDefault     Layer = "default"
	FromSocket      Layer = "socket" // of the service manager
	FromFile        Layer = "file"
	FromEnvironment Layer = "environment"
	FromFlag        Layer = "flag"
)

// String is "default", "socket botwired.socket", "file /path:3", "environment
// BOTWIRED_LISTEN" or "flag --listen".
func (o Source) String() string {
	switch {
	case o.Name == "":
		return string(o.Layer)
	case o.Line != 0:
		return fmt.Sprintf("%s %s:%d", o.Layer, o.Name, o.Line)
	default:
		return string(o.Layer) + " " + o.Name
	}
}

// Source returns the source of a setting's value; the zero Source if there is no such
// setting.
func (l *Loaded) Source(name string) Source {
	for _, v := range l.Values {
		if v.Name == name {
			return v.Source
		}
	}
	return Source{}
}

// Load makes a configuration of its sources. Its errors are of type *Error.
func Load(src Sources) (*Loaded, error) {
	l := newLoader(src)
	if err := l.load(); err != nil {
		return nil, err
	}
	return l.loaded(), nil
}

// Check is Load for a person who corrects a configuration: it does not end at the first
// error. Unless there is none, Loaded has the settings that are right, and for each of the
// others its value of a lower layer.
func Check(src Sources) (*Loaded, []*Error) {
	l := newLoader(src)
	l.all = true
	if err := l.load(); err != nil {
		panic(err) // report keeps them all
	}
	return l.loaded(), l.faults
}

type loader struct {
	src     Sources
	env     environment
	table   []Setting
	places  places
	config  Config
	file    string            // that was read
	sources map[string]Source // by setting name

	all    bool     // errors do not end the load
	faults []*Error // if all is set
}

func newLoader(src Sources) *loader {
	env := newEnvironment(src.Environ, runtime.GOOS)
	return &loader{
		src:     src,
		env:     env,
		table:   Settings(),
		places:  places{goos: runtime.GOOS, getenv: env.get},
		sources: map[string]Source{},
	}
}

func (l *loader) load() error {
	for _, layer := range []func() error{l.readDefaults, l.readSocket, l.readFile, l.readEnvironment, l.readFlags, l.finish} {
		if err := layer(); err != nil {
			return err
		}
	}
	return nil
}

// report returns an error that ends the load, or notes it for one that goes on.
func (l *loader) report(fault *Error) error {
	if !l.all {
		return fault
	}
	l.faults = append(l.faults, fault)
	return nil
}

func (l *loader) assign(s Setting, v node, from Source) error {
	at := l.places
	if from.Layer == FromFile {
		at = at.in(filepath.Dir(from.Name))
	}
	err := s.codec.parse(&l.config, v, at)
	if err == nil {
		l.sources[s.Name] = from
		return nil
	}
	for _, p := range problems(err) {
		if err := l.report(explain(s, v, from, p)); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) readDefaults() error {
	for _, s := range l.table {
		value := s.Default
		if other, ok := l.src.Defaults[s.Name]; ok {
			value = other
		}
		l.sources[s.Name] = Source{Layer: FromDefault}
		if value == "" {
			continue // finish derives it, or it is the field's zero value
		}
		if err := l.assign(s, node{text: value, raw: true}, Source{Layer: FromDefault}); err != nil {
			return err
		}
	}
	return nil
}

// readSocket has the passed socket say where the daemon listens.
func (l *loader) readSocket() error {
	s, ok := find(l.table, "listen")
	if l.src.Socket.Address == "" || !ok {
		return nil
	}
	return l.assign(s, node{text: l.src.Socket.Address, raw: true}, Source{Layer: FromSocket, Name: l.src.Socket.Name})
}

func (l *loader) readFile() error {
	name, named := l.src.File, Source{Layer: FromFlag, Name: "--config"}
	if name == "" {
		name, named = l.env.get(EnvFile), Source{Layer: FromEnvironment, Name: EnvFile}
	}
	if name == "" {
		name, named = l.places.configFile(), Source{Layer: FromDefault}
	}
	if name == "" {
		return nil
	}
	path, err := l.places.absolute(name)
	if err != nil {
		return l.report(&Error{Setting: "configuration file", Value: strconv.Quote(name), Source: named.String(), Expected: err.Error()})
	}
	content, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && named.Layer == FromDefault {
		return nil
	}
	if err != nil {
		return l.report(&Error{Setting: "configuration file", Value: strconv.Quote(path), Source: named.String(),
			Expected: fmt.Sprintf("a readable file, which gives: %v", err)})
	}
	l.file = path
	return l.readYAML(path, content)
}

func (l *loader) readYAML(path string, content []byte) error {
	from := Source{Layer: FromFile, Name: path}
	root, err := parseYAML(content)
	var fault *syntaxError
	if errors.As(err, &fault) {
		from.Line = fault.line
		return l.report(&Error{Source: from.String(), Line: from.Line, Expected: fault.expected})
	}
	first := make(map[string]int) // the line of each setting
	for _, leaf := range flatten(l.table, root) {
		from.Line = leaf.line
		if err := l.readLeaf(leaf, from, first[leaf.key]); err != nil {
			return err
		}
		if first[leaf.key] == 0 {
			first[leaf.key] = leaf.line
		}
	}
	return nil
}

// readLeaf reads a setting of the file. before is the line that has it already, or 0.
func (l *loader) readLeaf(leaf pair, from Source, before int) error {
	s, ok := find(l.table, leaf.key)
	switch {
	case !ok:
		return l.report(unknown(leaf.key, leaf.value, from, l.table))
	case before != 0:
		return l.report(&Error{Setting: s.Name, Value: s.shown(leaf.value), Source: from.String(), Line: from.Line,
			Expected: fmt.Sprintf("each setting once, but line %d has it already", before)})
	}
	return l.assign(s, leaf.value, from)
}

func (l *loader) readEnvironment() error {
	byVariable := make(map[string]Setting, len(l.table))
	for _, s := range l.table {
		byVariable[s.Env()] = s
	}
	for _, name := range l.env.names {
		value := l.env.values[name]
		if len(name) <= len(envPrefix) || name[:len(envPrefix)] != envPrefix {
			continue
		}
		if name == EnvFile || isInjected(name, value) || slices.Contains(ofCompletion, name) {
			continue
		}
		from := Source{Layer: FromEnvironment, Name: name}
		s, ok := byVariable[name]
		if !ok {
			if err := l.report(unknownVariable(name, value, l.table)); err != nil {
				return err
			}
			continue
		}
		if err := l.assign(s, node{text: value, raw: true}, from); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) readFlags() error {
	for _, name := range slices.Sorted(maps.Keys(l.src.Flags)) {
		v := node{text: l.src.Flags[name], raw: true}
		from := Source{Layer: FromFlag, Name: "--" + FlagName(name)}
		s, ok := find(l.table, name)
		if !ok {
			if err := l.report(unknown(name, v, from, l.table)); err != nil {
				return err
			}
			continue
		}
		if err := l.assign(s, v, from); err != nil {
			return err
		}
	}
	return nil
}

// finish derives the defaults that depend on other settings or the platform, and checks
// the settings against each other.
func (l *loader) finish() error {
	l.derive()
	if err := l.validate(); err != nil {
		return err
	}
	resolveOverrides(&l.config, l.places)
	return nil
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

// defaults returns the configuration of somebody who sets nothing but upstream.url: the
// defaults of the quota go by that.
func (l *loader) defaults() *Config {
	d := *l
	d.all, d.config, d.sources = true, Config{}, map[string]Source{}
	_ = d.readDefaults() // with all set, it returns none
	url := d.config.Upstream.URL
	d.config.Upstream.URL = l.config.Upstream.URL
	d.derive()
	d.config.Upstream.URL = url
	return &d.config
}

func (l *loader) loaded() *Loaded {
	out := &Loaded{Config: l.config, File: l.file}
	defaults := l.defaults()
	for _, s := range l.table {
		out.Values = append(out.Values, Value{
			Name: s.Name, Value: s.codec.print(&l.config), Default: s.codec.print(defaults), Source: l.sources[s.Name],
		})
	}
	if warning := l.config.tokenWarning(l.places); warning != "" {
		out.Warnings = append(out.Warnings, warning)
	}
	return out
}
