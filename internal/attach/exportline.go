package attach

import (
	"net/url"
	"strings"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
)

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
