package attach

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

// Exit codes of "botwired run" besides the command's own, as in shells.
const (
	ExitNotRun   = 126 // the command exists but cannot be run
	ExitNotFound = 127
	ExitSignal   = 128 // plus the signal's number, for a command that a signal ended
)

// runLog is the log of the daemon that "botwired run" or "botwired mcp" last started, in the data
// directory. Each start overwrites it.
const runLog = "run.log"

func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // users with "." in PATH want this
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &term.Exit{Code: ExitNotFound, Err: fmt.Errorf("%s: command not found", name)}
	}
	return "", &term.Exit{Code: ExitNotRun, Err: fmt.Errorf("%s cannot be run: %s", name, words.Reason(err))}
}

func notStarted(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) { // a script's interpreter may be missing
		return &term.Exit{Code: ExitNotFound, Err: fmt.Errorf("%s: it or its interpreter is not there", name)}
	}
	return &term.Exit{Code: ExitNotRun, Err: fmt.Errorf("%s cannot be run: %s", name, words.Reason(err))}
}

// interpreters are programs that run another one, which an argument names.
var interpreters = []string{"python", "pypy", "uv", "node", "bun", "deno", "npx", "tsx", "ruby", "php", "perl", "bash", "sh", "env"}

// authorOf returns the name of a command in the history: BOTWIRED_AUTHOR, else the script that an interpreter
// runs or the module of python -m, else the program.
func authorOf(environ, args []string) string {
	for _, each := range environ {
		if given, ok := strings.CutPrefix(each, "BOTWIRED_AUTHOR="); ok && wire.Author(given) != "" {
			return wire.Author(given)
		}
	}
	base := func(path string) string {
		name := filepath.Base(path)
		return wire.Author(cmp.Or(strings.TrimSuffix(name, filepath.Ext(name)), name))
	}
	program := strings.TrimRight(base(args[0]), "0123456789.")
	if !slices.Contains(interpreters, program) {
		return base(args[0])
	}
	for i, each := range args[1:] {
		switch {
		case each == "-m" && i+2 < len(args):
			return wire.Author(args[i+2])
		case !strings.HasPrefix(each, "-") && !strings.ContainsAny(each, " \n") && filepath.Ext(each) != "":
			return base(each)
		}
	}
	return base(args[0])
}

// commandEnviron returns the environment for a command that uses the daemon at an address, under the name of
// an author. The token is passed only in the environment.
func commandEnviron(environ []string, address, token, author string) []string {
	u := url.URL{Scheme: "http", Host: address}
	if author != "" {
		u.Path, u.RawPath = wire.AuthorPath+author, wire.AuthorPath+url.PathEscape(author)
	}
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
			out = append(out, name+"="+WithoutProxy(value, direct))
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

// WithoutProxy adds hosts to the value of NO_PROXY. It leaves "*" alone: that means every host, but
// only without other names.
func WithoutProxy(value string, hosts []string) string {
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

// ExportLine returns the shell command that points the SDKs at the daemon. The shell reads the token
// from its file, so the token is not shown. The result is "" for a socket: SDKs do not connect to one.
func ExportLine(c *config.Config, address, token string) string {
	if _, ok := c.Socket(); ok {
		return ""
	}
	user := ""
	if token != "" {
		user = "x:$(cat " + ShellWord(c.Auth.TokenFile) + ")@"
		if url.UserPassword("x", token).String() != "x:"+token {
			user = "x:$(jq -Rr @uri " + ShellWord(c.Auth.TokenFile) + ")@" // in a URL it must be encoded
		}
	}
	return "export BOTWIRE_URL=http://" + user + api.Host(address)
}

// ShellWord quotes a text for a POSIX shell, if necessary.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,/._-", r)
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
