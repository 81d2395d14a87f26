package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Token reads from auth.token_file the bearer token that callers must send. It returns "" if callers
// need none. Every call reads the file, so the daemon decides when a changed token takes effect. The
// error holds no part of the token.
func (c *Config) Token() (string, error) {
	if c.Auth.TokenFile == "" {
		return "", nil
	}
	token, err := readToken(c.Auth.TokenFile)
	if err != nil {
		return "", fmt.Errorf("auth.token_file = %q: expected %w", c.Auth.TokenFile, err)
	}
	return token, nil
}

// readToken reads a token. Its errors complete "expected …".
func readToken(name string) (string, error) {
	content, err := readFile(name)
	if err != nil {
		return "", fmt.Errorf("a readable file, which gives: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", errors.New("a file with a token in it; this one is empty")
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return "", errors.New("a file with one token on one line, of visible ASCII characters without spaces")
		}
	}
	return token, nil
}

// modeWarnings returns warnings about secret files that other users may read. Such files are accepted:
// secrets mounted into containers often have mode 0444, and containers have no other users.
func (l *loader) modeWarnings() (warnings []string) {
	for _, s := range l.table {
		file := s.codec.print(&l.config)
		if !s.SecretFile || file == noFile || l.places.goos == "windows" || l.places.isCredential(file) {
			continue
		}
		info, err := os.Stat(file)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %s has mode %04o, so other users of this machine can read it; 0600 is enough",
				s.Name, file, info.Mode().Perm()))
		}
	}
	return warnings
}

// isCredential reports whether a file is in systemd's credentials directory, which only the unit can
// read. Its mode is misleading: the group bits show the mask of an access control list.
func (p places) isCredential(name string) bool {
	dir := p.getenv(envCredentials)
	return filepath.IsAbs(dir) && filepath.Dir(name) == filepath.Clean(dir)
}
