package config

import (
	"cmp"
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

// systemd's variables for a unit's directories: StateDirectory=, ConfigurationDirectory= and
// LoadCredential=.
const (
	envStateDirectory = "STATE_DIRECTORY"
	envConfigDir      = "CONFIGURATION_DIRECTORY"
	envCredentials    = "CREDENTIALS_DIRECTORY"
)

// maxFile limits every file that Load reads, in bytes: a path that names a log or a device by mistake
// must not fill the memory.
const maxFile = 1 << 20

// pipeTime limits how long a pipe's writer may take.
const pipeTime = 10 * time.Second

// places finds a platform's directories for a user's files, and resolves relative paths.
type places struct {
	goos   string
	getenv func(string) string
	base   string // the configuration file's directory while the file is parsed; "" means the working directory
}

func placesOf(environ []string) places {
	return places{goos: runtime.GOOS, getenv: newEnvironment(environ, runtime.GOOS).get}
}

// configFile returns the default path of the configuration file: in the unit's directory, or else in
// the user's. It returns "" if the user has no home.
func (p places) configFile() string {
	if dir := p.unitDirectory(envConfigDir); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return below(p.platform("AppData", "XDG_CONFIG_HOME", ".config"), application, "config.yaml")
}

// stateDir returns the default of data_dir: the unit's directory, or else one of the user's. It returns
// "" if the user has no home.
func (p places) stateDir() string {
	if dir := p.unitDirectory(envStateDirectory); dir != "" {
		return dir
	}
	return p.userDir()
}

// userDir returns the user's directory for botwired's state, or "".
func (p places) userDir() string {
	return below(p.platform("LocalAppData", "XDG_STATE_HOME", ".local", "state"), application)
}

// unitDirectory returns the directory that systemd made for botwired: the unit's own if it is called
// botwired, or else one below it, because the unit may run another program. It returns "" outside of
// such a unit.
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

// platform returns the platform's directory for a kind of file, or "". On Windows, a variable names it.
// On macOS, it is Library/Application Support in the home directory. Elsewhere, XDG's variable names
// it, or it is below the home directory.
func (p places) platform(windows, xdg string, underHome ...string) string {
	switch p.goos {
	case "windows":
		return p.getenv(windows)
	case "darwin", "ios":
		return below(p.home(), "Library", "Application Support")
	}
	return p.xdg(xdg, underHome...)
}

func below(dir string, elem ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, filepath.Join(elem...))
}

// xdg returns the directory in an XDG variable, or a default below the home directory. It ignores a
// relative path, as the XDG base directory specification demands.
func (p places) xdg(variable string, underHome ...string) string {
	if dir := p.getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return below(p.home(), underHome...)
}

// home returns the home directory, or "". It ignores a relative path, which would depend on the working
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

// DefaultDataDir returns the default of data_dir for an environment as from os.Environ. It returns ""
// if the user has no home.
func DefaultDataDir(environ []string) string {
	return placesOf(environ).stateDir()
}

// absolute returns an absolute path. A leading "~/" stands for the home directory. A relative path in
// the configuration file starts from the file's directory, and any other from the working directory.
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

// noFile is the value of a setting of a file that names none. An empty value is refused: a variable that was
// meant to hold a path must not take the guard away.
const noFile = "none"

func (p places) pathOrNone(v node) (string, error) {
	if v.kind == isText && v.text == noFile {
		return "", nil
	}
	return p.path(v)
}

func printFile(name string) string { return cmp.Or(name, noFile) }

func directory(at func(*Config) *string) codec {
	return codecOf(at, "path", "the path of a directory", itself, func(v node, p places) (string, error) { return p.path(v) })
}

// file accepts "none", so that a flag can unset the configuration file's value. Whether the file exists is
// checked when it is read.
func file(at func(*Config) *string) codec {
	return codecOf(at, "path", `the path of a file, or "none"`, printFile, func(v node, p places) (string, error) { return p.pathOrNone(v) })
}

// readFile reads a small file. The file may be a pipe, such as a shell's <(command). A reload must
// neither wait for a pipe without a writer nor read it as empty. Errors do not repeat the name.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(pipeTime)) // a regular file has no deadline, and needs none
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
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
