package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/words"
)

func (p *Program) flagError(cmd *cobra.Command, err error) error {
	var valueless *pflag.ValueRequiredError
	var malformed *pflag.InvalidValueError
	var noFlag *pflag.InvalidSyntaxError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &valueless):
		name := valueless.GetSpecifiedName()
		return Usagef("--%s has no value: expected --%s %s", name, name, strings.ToUpper(valueless.GetFlag().Value.Type()))
	case errors.As(err, &malformed):
		return Usagef("--%s = %q: expected %s", malformed.GetFlag().Name, malformed.GetValue(), expectedOf(malformed.GetFlag()))
	case errors.As(err, &noFlag):
		return Usagef("%q is no flag: expected --NAME or --NAME=VALUE", noFlag.GetSpecifiedFlag())
	case errors.As(err, &unknown):
		return p.unknownFlag(cmd, unknown)
	}
	return &UsageError{err}
}

func expectedOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int", "uint64":
		return "a whole number"
	}
	return "a " + f.Value.Type()
}

// unknownFlag returns an error for an unknown flag. If the command takes arguments, the flag may be an
// argument that begins with a dash.
func (p *Program) unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	given := "-" + unknown.GetSpecifiedShortnames()
	hint := ""
	takesArguments := strings.Contains(cmd.Use, " ")
	if given != "-" {
		if takesArguments {
			hint = "; if it is an argument, put two dashes before it: -- " + given
		}
		return Usagef("unknown flag %s: expected one of the flags that --help lists%s", given, hint)
	}
	if foreign := foreignSetting(cmd, unknown.GetSpecifiedName()); foreign != nil {
		return foreign
	}
	given = "--" + unknown.GetSpecifiedName()
	value := ""
	for _, arg := range p.Args {
		if found, ok := strings.CutPrefix(arg, given+"="); ok {
			value = found
		}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	fault := config.UnknownFlag(given, value, known)
	if takesArguments {
		fault.Expected += "; if it is an argument, put two dashes before it"
	}
	return &UsageError{fault}
}

func foreignSetting(cmd *cobra.Command, name string) error {
	flag := string(flagSpelling()(nil, name))
	for _, s := range config.Settings() {
		if s.Flag() == flag {
			return Usagef("--%s is a setting of the daemon, which %q does not read: give it to botwired serve", flag, cmd.CommandPath())
		}
	}
	if flag == "config" {
		return Usagef("--config: %q reads no configuration", cmd.CommandPath())
	}
	return nil
}

// NoArguments rejects arguments. An unknown command arrives here as an argument of its parent command.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return Usagef("unexpected argument %q: expected %q", args[0], cmd.UseLine())
	}
	var known []string
	for _, sub := range cmd.Commands() {
		known = append(known, sub.Name())
	}
	hint := ""
	if near := config.Suggest(args[0], known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return Usagef("unknown command %q: expected one of those that %q lists%s", args[0], cmd.CommandPath()+" --help", hint)
}

// arguments accepts from least to most arguments. The first two, which name something, must not be empty: a script with an
// unset variable does not mean all of them.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n == 0 && least > 0:
			return Usagef("the arguments are missing: expected %q", cmd.UseLine())
		case n < least:
			return Usagef("%s, and more are needed: expected %q", words.Plural(n, "argument"), cmd.UseLine())
		case n > most:
			return Usagef("%q takes %s, and got %d: %s", cmd.CommandPath(), words.Plural(most, "argument"), n, cmd.UseLine())
		}
		for i, arg := range args[:min(len(args), 2)] {
			if arg == "" {
				return Usagef("argument %d is empty: expected %q", i+1, cmd.UseLine())
			}
		}
		return nil
	}
}

// namespaceFlag adds --namespace, whose default is "". It rejects an empty text: a script with an unset
// variable does not mean all namespaces.
func namespaceFlag(cmd *cobra.Command, usage string) *string {
	var v namespaceValue
	cmd.Flags().Var(&v, "namespace", usage)
	return (*string)(&v)
}

type namespaceValue string

func (v *namespaceValue) String() string { return string(*v) }
func (v *namespaceValue) Type() string   { return "namespace" }

func (v *namespaceValue) Set(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	*v = namespaceValue(text)
	return nil
}

// parseTime parses a flag's duration, or a number of seconds as in the HTTP API.
func parseTime(flag, s string, most time.Duration) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err != nil && strings.Trim(s, ".0123456789") == "" {
		d, err = config.ParseDuration(s + "s")
	}
	if err != nil || d <= 0 || d > most {
		return 0, Usagef("--%s = %q: expected a duration above zero, at most %s, such as 30s, or a number of seconds",
			flag, s, config.FormatDuration(most))
	}
	return d, nil
}

// mayAsk returns a usage error if a command must ask first but nobody can reply: without --yes and
// without a terminal. does completes "this ...": why it asks.
func (p *Program) mayAsk(yes bool, does string) error {
	if yes || p.IsTerminal(p.Stdin) && p.IsTerminal(p.Stderr) {
		return nil
	}
	return Usagef("this %s, and there is no terminal to ask at: add --yes", does)
}
