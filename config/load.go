package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strconv"
)

// Sources is everything a configuration is made of. Load looks nowhere else
// but at the files named here and by the settings.
type Sources struct {
	Flags    map[string]string // what the command line gives, by setting name
	Environ  []string          // as of os.Environ
	File     string            // what --config gives; "" leaves it to BOTWIRED_CONFIG and the default place
	Defaults map[string]string // by setting name; replace those of the table for one command
}

// Loaded is a configuration together with where each of its values came from.
type Loaded struct {
	Config   Config
	Values   []Value  // one for each setting, in the order of Settings
	Warnings []string // for the log, one line each
}

// Value is one setting as it is in force.
type Value struct {
	Name   string
	Value  string // as anyone would write it; secrets are redacted
	Origin Origin
}

// Origin says where a value came from.
type Origin struct {
	Layer Layer
	Name  string // the file's path, the variable or the flag
	Line  int    // in the file, from 1
}

// Layer is a place for values. A later one replaces an earlier one.
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
func (o Origin) String() string {
	switch {
	case o.Name == "":
		return string(o.Layer)
	case o.Line != 0:
		return fmt.Sprintf("%s %s:%d", o.Layer, o.Name, o.Line)
	default:
		return string(o.Layer) + " " + o.Name
	}
}

// Origin returns where the value of a setting came from; for a name that is no
// setting's it is the zero Origin.
func (l *Loaded) Origin(name string) Origin {
	for _, v := range l.Values {
		if v.Name == name {
			return v.Origin
		}
	}
	return Origin{}
}

// Load makes a configuration of its sources. An error is of type *Error.
func Load(src Sources) (*Loaded, error) {
	env := newEnvironment(src.Environ, runtime.GOOS)
	l := &loader{
		src:     src,
		env:     env,
		table:   Settings(),
		places:  places{goos: runtime.GOOS, getenv: env.get},
		origins: map[string]Origin{},
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
	origins map[string]Origin // by setting name
}

func (l *loader) assign(s Setting, v node, from Origin) error {
	if err := s.codec.parse(&l.config, v, l.places); err != nil {
		return explain(s, v, from, err)
	}
	l.origins[s.Name] = from
	return nil
}

func (l *loader) readDefaults() error {
	for _, s := range l.table {
		value := s.Default
		if other, ok := l.src.Defaults[s.Name]; ok {
			value = other
		}
		l.origins[s.Name] = Origin{Layer: FromDefault}
		if value == "" {
			continue // worked out in finish, or the field's zero value
		}
		if err := l.assign(s, node{text: value, raw: true}, Origin{Layer: FromDefault}); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) readFile() error {
	name, named := l.src.File, Origin{Layer: FromFlag, Name: "--config"}
	if name == "" {
		name, named = l.env.get(EnvFile), Origin{Layer: FromEnvironment, Name: EnvFile}
	}
	if name == "" {
		name, named = l.places.configFile(), Origin{Layer: FromDefault}
	}
	if name == "" {
		return nil
	}
	path, err := l.places.absolute(name)
	if err != nil {
		return &Error{Setting: "configuration file", Value: strconv.Quote(name), Origin: named.String(), Expected: err.Error()}
	}
	content, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && named.Layer == FromDefault {
		return nil
	}
	if err != nil {
		return &Error{Setting: "configuration file", Value: strconv.Quote(path), Origin: named.String(),
			Expected: fmt.Sprintf("a readable file, which gives: %v", err)}
	}
	return l.readYAML(path, content)
}

func (l *loader) readYAML(path string, content []byte) error {
	from := Origin{Layer: FromFile, Name: path}
	root, err := parseYAML(content)
	var fault *syntaxError
	if errors.As(err, &fault) {
		from.Line = fault.line
		return &Error{Origin: from.String(), Expected: fault.expected}
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
			return &Error{Setting: s.Name, Value: s.shown(again.value), Origin: from.String(),
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
		from := Origin{Layer: FromEnvironment, Name: name}
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
		from := Origin{Layer: FromFlag, Name: "--" + FlagName(name)}
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

// finish works out the defaults that depend on other settings or the platform,
// and checks what no setting can check alone.
func (l *loader) finish() error {
	for _, s := range l.table {
		_, replaced := l.src.Defaults[s.Name]
		if s.derive != nil && !replaced && l.origins[s.Name].Layer == FromDefault {
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
		out.Values = append(out.Values, Value{Name: s.Name, Value: s.codec.print(&l.config), Origin: l.origins[s.Name]})
	}
	if warning := l.config.tokenWarning(l.places); warning != "" {
		out.Warnings = append(out.Warnings, warning)
	}
	return out
}
