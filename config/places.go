package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const application = "botwired"

// maxFile bounds every file that is read whole, in bytes: a path that points at
// a log or a device by mistake must not fill the memory.
const maxFile = 1 << 20

// places knows where a platform keeps things for the user whose environment it is.
type places struct {
	goos   string
	getenv func(string) string
}

// configFile is where the configuration is looked for if no file is named, or
// "" if the user has no home.
func (p places) configFile() string {
	dir := ""
	switch p.goos {
	case "windows":
		dir = p.getenv("AppData")
	case "darwin", "ios":
		dir = p.underHome("Library", "Application Support")
	default:
		dir = p.xdg("XDG_CONFIG_HOME", ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, application, "config.yaml")
}

// stateDir is the default of data_dir, or "" if the user has no home.
func (p places) stateDir() string {
	dir := ""
	switch p.goos {
	case "windows":
		dir = p.getenv("LocalAppData")
	case "darwin", "ios":
		dir = p.underHome("Library", "Application Support")
	default:
		dir = p.xdg("XDG_STATE_HOME", ".local", "state")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, application)
}

// xdg ignores a relative path in the variable, as the XDG base directory
// specification asks.
func (p places) xdg(variable string, underHome ...string) string {
	if dir := p.getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return p.underHome(underHome...)
}

func (p places) underHome(elem ...string) string {
	home := p.home()
	if home == "" {
		return ""
	}
	return filepath.Join(append([]string{home}, elem...)...)
}

func (p places) home() string {
	if p.goos == "windows" {
		return p.getenv("USERPROFILE")
	}
	return p.getenv("HOME")
}

// absolute expands a leading "~/" and makes a relative path one from the
// working directory.
func (p places) absolute(name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home := p.home()
		if home == "" {
			return "", errors.New("a path without ~, as there is no home directory")
		}
		name = filepath.Join(home, rest)
	}
	return filepath.Abs(name)
}

func (p places) path(v node) (string, error) {
	if v.kind != isText || v.text == "" || strings.ContainsRune(v.text, 0) {
		return "", unexpected()
	}
	return p.absolute(v.text)
}

func directory(at func(*Config) *string) codec {
	return codec{
		kind:     "path",
		expected: "the path of a directory",
		print:    func(c *Config) string { return *at(c) },
		parse: func(c *Config, v node, p places) error {
			dir, err := p.path(v)
			if err != nil {
				return err
			}
			*at(c) = dir
			return nil
		},
	}
}

// file accepts an empty text as "no file", so that a flag can take back what
// the configuration file names. Whether the file is there is checked later,
// by what reads it.
func file(at func(*Config) *string) codec {
	return codec{
		kind:     "path",
		expected: "the path of a file",
		print:    func(c *Config) string { return *at(c) },
		parse: func(c *Config, v node, p places) error {
			if v.kind == isText && v.text == "" {
				*at(c) = ""
				return nil
			}
			name, err := p.path(v)
			if err != nil {
				return err
			}
			*at(c) = name
			return nil
		},
	}
}

// readFile reads a small file whole. Its errors do not repeat the name.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("larger than %s", FormatSize(maxFile))
	}
	return content, nil
}

func bare(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
