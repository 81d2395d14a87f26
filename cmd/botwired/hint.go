package main

import (
	"net"
	"net/url"
	"strings"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
)

// sayHow ends the lines that serve shows on a terminal at its start with the one to copy into the
// terminal of the agents. A log that a program reads has no such line.
func sayHow(p *process, c *config.Config, address net.Addr, token string) {
	line := exportLine(c, address.String(), token)
	if line == "" || !p.IsTerminal(p.Stderr) {
		return
	}
	for _, each := range []string{"In the terminal of your agents:\n", line + "\n"} {
		_, _ = p.log.Write([]byte(each)) // which never fails
	}
}

// exportLine points the SDKs of a shell at the daemon. The shell reads the token from its file: it
// does not show. The line is empty for a socket, which SDKs do not know.
func exportLine(c *config.Config, address, token string) string {
	if _, ok := c.Socket(); ok {
		return ""
	}
	user := ""
	if token != "" {
		user = "x:$(cat " + shellWord(c.Auth.TokenFile) + ")@"
		if url.UserPassword("x", token).String() != "x:"+token {
			user = "x:$(jq -Rr @uri " + shellWord(c.Auth.TokenFile) + ")@" // a URL needs it encoded
		}
	}
	return "export BOTWIRE_URL=http://" + user + api.Host(address)
}

// shellWord quotes a text for a POSIX shell, if it must.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,/._-", r)
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
