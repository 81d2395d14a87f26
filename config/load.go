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
}

// Loaded is a configuration with the source of each of its values.
type Loaded struct {
	Config   Config
	Values   []Value  // one for each setting, in the order of Settings
	Warnings []string // for the log, one line each
}

// Value is one setting in force.
type Value struct {
	Name   string
	Value  string // as a person writes it; secrets are redacted
	Source Source
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
	FromFile        Layer = "file"
	FromEnvironment Layer = "environment"
	FromFlag        Layer = "flag"
)

// String is "default", "file /path:3", "environment BOTWIRED_LISTEN" or
// "flag --listen".
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
	env := newEnvironment(src.Environ, runtime.GOOS)
	l := &loader{
		src:     src,
		env:     env,
		table:   Settings(),
		places:  places{goos: runtime.GOOS, getenv: env.get},
		sources: map[string]Source{},
	}
	for _, layer := range []func() error{l.readDefaults, l.readFile, l.readEnvironment, l.readFlags, l.finish} {
		if err := layer(); err != nil {
			return nil, err
		}
	}
	return l.loaded(), nil
}

type loader struct {
	src     Sources
	env     environment
	table   []Setting
	places  places
	config  Config
	sources map[string]Source // by setting name
}

func (l *loader) assign(s Setting, v node, from Source) error {
	at := l.places
	if from.Layer == FromFile {
		at = at.in(filepath.Dir(from.Name))
	}
	if err := s.codec.parse(&l.config, v, at); err != nil {
		return explain(s, v, from, err)
	}
	l.sources[s.Name] = from
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
		return &Error{Setting: "configuration file", Value: strconv.Quote(name), Source: named.String(), Expected: err.Error()}
	}
	content, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && named.Layer == FromDefault {
		return nil
	}
	if err != nil {
		return &Error{Setting: "configuration file", Value: strconv.Quote(path), Source: named.String(),
			Expected: fmt.Sprintf("a readable file, which gives: %v", err)}
	}
	return l.readYAML(path, content)
}

func (l *loader) readYAML(path string, content []byte) error {
	from := Source{Layer: FromFile, Name: path}
	root, err := parseYAML(content)
	var fault *syntaxError
	if errors.As(err, &fault) {
		from.Line = fault.line
		return &Error{Source: from.String(), Expected: fault.expected}
	}
	leaves := flatten(l.table, root)
	again, twice := repeated(leaves)
	for _, leaf := range leaves {
		from.Line = leaf.line
		s, ok := find(l.table, leaf.key)
		if !ok {
			return unknown(leaf.key, leaf.value, from, l.table)
		}
		if twice && leaf.key == again.key {
			from.Line = again.line
			return &Error{Setting: s.Name, Value: s.shown(again.value), Source: from.String(),
				Expected: fmt.Sprintf("each setting once, but line %d has it already", leaf.line)}
		}
		if err := l.assign(s, leaf.value, from); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) readEnvironment() error {
	byVariable := make(map[string]Setting, len(l.table))
	for _, s := range l.table {
		byVariable[s.Env()] = s
	}
	for _, name := range l.env.names {
		value := l.env.values[name]
		if len(name) <= len(envPrefix) || name[:len(envPrefix)] != envPrefix || name == EnvFile || isInjected(name, value) {
			continue
		}
		from := Source{Layer: FromEnvironment, Name: name}
		s, ok := byVariable[name]
		if !ok {
			return unknownVariable(name, value, l.table)
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
			return unknown(name, v, from, l.table)
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
	for _, s := range l.table {
		_, replaced := l.src.Defaults[s.Name]
		if s.derive != nil && !replaced && l.sources[s.Name].Layer == FromDefault {
			s.derive(&l.config, l.places)
		}
	}
	if err := l.validate(); err != nil {
		return err
	}
	resolveOverrides(&l.config, l.places)
	return nil
}

func (l *loader) loaded() *Loaded {
	out := &Loaded{Config: l.config}
	for _, s := range l.table {
		out.Values = append(out.Values, Value{Name: s.Name, Value: s.codec.print(&l.config), Source: l.sources[s.Name]})
	}
	if warning := l.config.tokenWarning(l.places); warning != "" {
		out.Warnings = append(out.Warnings, warning)
	}
	return out
}
