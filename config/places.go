package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const application = "botwired"

// The variables by which systemd names the directories of a unit: of StateDirectory=,
// ConfigurationDirectory= and LoadCredential=.
const (
	envStateDirectory = "STATE_DIRECTORY"
	envConfigDir      = "CONFIGURATION_DIRECTORY"
	envCredentials    = "CREDENTIALS_DIRECTORY"
)

// maxFile bounds every file that Load reads, in bytes: a path that names a log or a device
// by mistake must not fill the memory.
const maxFile = 1 << 20

// pipeTime bounds how long a pipe's writer may take.
const pipeTime = 10 * time.Second

// places knows where a platform keeps a user's files, and where relative paths begin.
type places struct {
	goos   string
	getenv func(string) string
	base   string // the directory of the configuration file, while that is read; "" is the working directory
}

func placesOf(environ []string) places {
	return places{goos: runtime.GOOS, getenv: newEnvironment(environ, runtime.GOOS).get}
}

// configFile returns the default place of the configuration file: in the unit's directory,
// or else in the user's; "" if the user has no home.
func (p places) configFile() string {
	if dir := p.unitDirectory(envConfigDir); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return below(p.platform("AppData", "XDG_CONFIG_HOME", ".config"), application, "config.yaml")
}

// stateDir returns the default of data_dir: the unit's directory, or else one of the user's;
// "" if the user has no home.
func (p places) stateDir() string {
	if dir := p.unitDirectory(envStateDirectory); dir != "" {
		return dir
	}
	return below(p.platform("LocalAppData", "XDG_STATE_HOME", ".local", "state"), application)
}

// unitDirectory returns the directory that systemd has made for botwired: the unit's own if it is
// called botwired, or else one below it, as the unit may be another program's. It returns ""
// outside of such a unit.
func (p places) unitDirectory(variable string) string {
	dirs := filepath.SplitList(p.getenv(variable))
	if p.goos != "linux" || len(dirs) == 0 {
		return ""
	}
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && filepath.Base(dir) == application {
			return filepath.Clean(dir)
		}
	}
	if !filepath.IsAbs(dirs[0]) {
		return ""
	}
	return filepath.Join(dirs[0], application)
}

// platform returns the platform's directory for a kind of file, or "". On Windows a
// variable names it; elsewhere XDG's variable does, or else it is in the home directory.
func (p places) platform(windows, xdg string, underHome ...string) string {
	switch p.goos {
	case "windows":
		return p.getenv(windows)
	case "darwin", "ios":
		return below(p.home(), "Library", "Application Support")
	}
	return p.xdg(xdg, underHome...)
}

// below returns a path in dir, or "" if there is no dir.
func below(dir string, elem ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, filepath.Join(elem...))
}

// xdg ignores a relative path in the variable, as the XDG base directory
// specification asks.
func (p places) xdg(variable string, underHome ...string) string {
	if dir := p.getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return below(p.home(), underHome...)
}

// home ignores a relative path, which would mean another directory for each working
// directory.
func (p places) home() string {
	variable := "HOME"
	if p.goos == "windows" {
		variable = "USERPROFILE"
	}
	if dir := p.getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return ""
}

// DefaultDataDir returns the default of data_dir in an environment as of os.Environ; ""
// if the user has no home.
func DefaultDataDir(environ []string) string {
	return placesOf(environ).stateDir()
}

// absolute expands a leading "~/", and resolves a relative path: one in the configuration
// file from the file's directory, any other from the working directory.
func (p places) absolute(name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home := p.home()
		if home == "" {
			return "", errors.New("a path without ~, as there is no home directory")
		}
		name = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.base, name)
	}
	return filepath.Abs(name)
}

func (p places) path(v node) (string, error) {
	if v.kind != isText || v.text == "" || strings.ContainsRune(v.text, 0) {
		return "", errUnexpected
	}
	return p.absolute(v.text)
}

// pathOrNone accepts an empty text, too.
func (p places) pathOrNone(v node) (string, error) {
	if v.kind == isText && v.text == "" {
		return "", nil
	}
	return p.path(v)
}

func directory(at func(*Config) *string) codec {
	return codecOf(at, "path", "the path of a directory", itself, func(v node, p places) (string, error) { return p.path(v) })
}

// file accepts an empty text as "no file", so that a flag can take back the value of the
// configuration file. The reader of the file finds out whether it exists.
func file(at func(*Config) *string) codec {
	return codecOf(at, "path", "the path of a file", itself, func(v node, p places) (string, error) { return p.pathOrNone(v) })
}

// readFile reads a small file whole. It may be a pipe, such as a shell's <(command), but a
// daemon that reloads must not wait for one that nobody writes to, or take it for an empty
// file. Its errors do not repeat the name.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(pipeTime)) // what has no deadline, such as a file, needs none
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, bare(err)
	}
	if info, err := f.Stat(); len(content) == 0 && err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, errors.New("nobody writes to it: it is a pipe")
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
