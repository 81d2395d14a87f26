package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
)

// Exit codes of "botwired run" besides the command's own, as shells have them.
const (
	exitNotRun   = 126 // the command is there and cannot be run
	exitNotFound = 127
	exitSignal   = 128 // and the signal's number, for a command that a signal ended
)

// runLog is the log of the daemon that "botwired run" or "botwired mcp" has started last, in the
// data directory. Each start begins it anew.
const runLog = "run.log"

// exitStatus ends the process with the exit code of a command. err may be nil.
type exitStatus struct {
	code int
	err  error
}

func (s *exitStatus) Error() string {
	if s.err == nil {
		return fmt.Sprint("exit code ", s.code)
	}
	return s.err.Error()
}

func (s *exitStatus) Unwrap() error { return s.err }

func newRunCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run [flags] -- COMMAND [ARGUMENT...]",
		Short:   "Run a command with a daemon beside it",
		GroupID: groupDaily,
		Long: "Run a command, such as an agent, whose BotWire SDK uses the daemon: run sets BOTWIRE_URL for it, and\n" +
			"keeps loopback out of its proxy (NO_PROXY). If no daemon answers at the address, run starts one with\n" +
			"its own flags and settings, whose log is the file run.log in data_dir. When the command has ended, run\n" +
			"has that daemon flush for up to flush.drain_timeout, and says what is still pending: it stays on the\n" +
			"disk, and goes to BotWire with the next start. A daemon that was there before goes on, and so does one that\n" +
			"another botwired run or botwired mcp with the same data_dir uses: it ends after the last of them.\n\n" +
			"Signals are passed on to the command. The exit code is the command's: 128 and the number of the signal\n" +
			"that has ended it, 127 if there is no such command, 126 if it cannot be run.",
		Example: "  botwired run -- python agent.py\n" +
			"  botwired run --upstream embedded --data-dir trial -- python agent.py",
		Args: arguments(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runBeside(cmd.Context(), settings, args)
		},
	}
	settings.takes(cmd, allSettings()...) // it hands them to the daemon that it starts
	hideSettings(cmd, append([]string{"config", "data_dir", "upstream.url", "flush.drain_timeout", "log.level"}, clientSettings...)...)
	cmd.Flags().SetInterspersed(false) // the flags behind COMMAND are its own
	return cmd
}

// findCommand returns the path of a command, or an error with the exit code for it.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // whoever has "." in PATH wants it
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &exitStatus{exitNotFound, fmt.Errorf("%s: command not found", name)}
	}
	return "", &exitStatus{exitNotRun, fmt.Errorf("%s cannot be run: %s", name, reason(err))}
}

// notStarted is the error of a command that was found and that the system did not start.
func notStarted(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) { // of a script, its interpreter
		return &exitStatus{exitNotFound, fmt.Errorf("%s: it or its interpreter is not there", name)}
	}
	return &exitStatus{exitNotRun, fmt.Errorf("%s cannot be run: %s", name, reason(err))}
}

// commandEnviron is the environment for a command that uses the daemon at an address. A
// token is in it, and nowhere else.
func commandEnviron(environ []string, address, token string) []string {
	u := url.URL{Scheme: "http", Host: address}
	if token != "" {
		u.User = url.UserPassword("x", token)
	}
	direct := []string{"127.0.0.1", "localhost"}
	if host, _, err := net.SplitHostPort(address); err == nil && !slices.Contains(direct, host) {
		direct = append(direct, host)
	}
	out := make([]string, 0, len(environ)+3)
	proxied := false
	for _, each := range environ {
		name, value, _ := strings.Cut(each, "=")
		switch name {
		case "BOTWIRE_URL":
		case "NO_PROXY", "no_proxy":
			proxied = true
			out = append(out, name+"="+withoutProxy(value, direct))
		default:
			out = append(out, each)
		}
	}
	if !proxied {
		hosts := strings.Join(direct, ",")
		out = append(out, "NO_PROXY="+hosts, "no_proxy="+hosts)
	}
	return append(out, "BOTWIRE_URL="+u.String())
}

// withoutProxy adds hosts to the value of NO_PROXY. "*" alone means every host, and only
// alone.
func withoutProxy(value string, hosts []string) string {
	if strings.TrimSpace(value) == "*" {
		return value
	}
	listed := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	for _, host := range hosts {
		if slices.Contains(listed, host) {
			continue
		}
		if strings.TrimSpace(value) != "" {
			value += ","
		}
		value += host
	}
	return value
}

// daemonArguments are those of the daemon that a command starts: its own settings.
func (f *settingFlags) daemonArguments() []string {
	return append([]string{"serve", "--" + unusedFlag}, f.settingArguments()...)
}

// settingArguments are the flags of the settings given on the command line.
func (f *settingFlags) settingArguments() (args []string) {
	if f.file != "" {
		args = append(args, "--config="+f.file)
	}
	for _, s := range config.Settings() {
		if value, ok := f.values[s.Name]; ok {
			args = append(args, "--"+s.Flag()+"="+value)
		}
	}
	return args
}
