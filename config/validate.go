package config

import (
	"slices"
	"strings"
)

// validate checks the settings against each other. Its errors name every setting
// involved.
func (l *loader) validate() error {
	for _, check := range []func() error{l.validateToken, l.validateListen, l.validateNATS} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) validateToken() error {
	if l.config.Auth.TokenFile == "" {
		return nil
	}
	if _, err := readToken(l.config.Auth.TokenFile); err != nil {
		return l.refuse("auth.token_file", err.Error())
	}
	return nil
}

func (l *loader) validateListen() error {
	if l.config.Auth.TokenFile != "" || l.config.onLoopback() || l.isFaulty("auth.token_file") {
		return nil
	}
	return l.refuse("listen", "a loopback address (localhost, 127.0.0.0/8 or ::1), or auth.token_file to be set as well")
}

// isFaulty reports whether a load that goes on has refused a value of one of the settings:
// what it then compares is not what the user wrote.
func (l *loader) isFaulty(names ...string) bool {
	return slices.ContainsFunc(l.faults, func(e *Error) bool { return slices.Contains(names, e.Setting) })
}

// RequireDataDir returns an error, of type *Error, if data_dir has no value: only a command
// that uses the directory needs one.
func (l *Loaded) RequireDataDir() error {
	if l.Config.DataDir != "" {
		return nil
	}
	return &Error{Setting: "data_dir", Source: string(FromDefault),
		Expected: "a directory, as HOME names no absolute path for the default: set data_dir (--data-dir or BOTWIRED_DATA_DIR)"}
}

// refuse blames the value in force of a setting.
func (l *loader) refuse(name, expected string) error {
	s, _ := find(l.table, name)
	value := ""
	if printed := s.codec.print(&l.config); printed != "" {
		value = s.shown(node{text: printed})
	}
	from := l.sources[name]
	return l.report(&Error{Setting: name, Value: value, Source: from.String(), Line: from.Line, Expected: expected})
}

// unknown is the error for a name that no setting has.
func unknown(name string, v node, from Source, table []Setting) *Error {
	expected := `one of the settings that "botwired config" lists`
	if instead, ok := formerly(name, Setting.key); ok {
		expected = instead
	} else if onlyOfNamespaces(name) {
		expected = "it in an entry of namespaces: a namespace has this setting, and the daemon as a whole does not"
	} else if isGroup(table, name) {
		expected = "a mapping of settings below it"
	} else if near := Suggest(name, names(table)); near != "" {
		expected += "; did you mean " + near + "?"
	}
	return &Error{Setting: shorten(name), Value: unknownValue(name, v), Source: from.String(), Line: from.Line, Expected: expected}
}

// aliased finds the setting whose short flag a variable spells.
func aliased(variable string, table []Setting) (Setting, bool) {
	for _, s := range table {
		if s.Alias != "" && variable == (Setting{Name: s.Alias}).Env() {
			return s, true
		}
	}
	return Setting{}, false
}

func unknownVariable(name, value string, table []Setting) *Error {
	variables := []string{EnvFile}
	for _, s := range table {
		variables = append(variables, s.Env())
	}
	expected := `a variable of one of the settings that "botwired config" lists`
	if s, ok := aliased(name, table); ok {
		expected += "; did you mean " + s.Env() + "?"
	} else if instead, ok := formerly(name, Setting.Env); ok {
		expected = instead
	} else if near := Suggest(name, variables); near != "" {
		expected += "; did you mean " + near + "?"
	}
	return &Error{Setting: shorten(name), Value: unknownValue(name, node{text: value}),
		Source: string(FromEnvironment), Expected: expected}
}

// UnknownFlag returns the error for a flag that does not exist. value is "" if the
// caller does not know it; known lists the names of the flags that exist.
func UnknownFlag(name, value string, known []string) *Error {
	e := &Error{Setting: shorten(name), Source: string(FromFlag), Expected: "one of the flags that --help lists"}
	if value != "" {
		e.Value = unknownValue(name, node{text: value})
	}
	plain := FlagName(strings.TrimLeft(name, "-"))
	if instead, ok := formerly("--"+plain, func(s Setting) string { return "--" + s.Flag() }); ok {
		e.Expected = instead
	} else if near := Suggest(plain, known); near != "" {
		e.Expected += "; did you mean --" + near + "?"
	}
	return e
}

// unknownValue shows the value of an unknown setting, unless it may be a secret.
func unknownValue(name string, v node) string {
	if looksSecret(name) || v.kind == isMapping || v.kind == isList {
		return redacted
	}
	return shorten(node{kind: v.kind, text: hideURLSecrets(v.text)}.String())
}
