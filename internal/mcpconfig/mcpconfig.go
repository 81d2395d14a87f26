// Package mcpconfig makes MCP clients start a server, by changing the client's configuration file.
// Codex' file, which is TOML, is changed with Codex' own command. Hermes gets the folder of a memory
// provider, which is in the subfolder hermes. The package imports nothing of the project.
//
// A change adds, replaces or removes the members of one server. Comments, order and everything else in
// the file stay, and a copy of the previous file is kept beside it. A file that is invalid, or not a
// regular file, is not changed.
package mcpconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Server is an MCP server that a client starts and uses over stdin and stdout. Its name may only
// contain a-z, A-Z, 0-9, _ and -.
type Server struct {
	Name    string // its name in the client
	Program string // an absolute path
	Args    []string
	Memory  Memory // for a client that does not start the server
}

// Client is a program that uses MCP servers.
type Client struct {
	Name  string // on the command line
	Title string // as its makers write it
	// After says how to make the client read its configuration again.
	After string
	// AfterRemoval says what to do when the server is out again, or is "": then it is After.
	AfterRemoval string
	// AfterProject says what else the client needs before it uses a project's file, or is "".
	AfterProject string

	user       string         // the user's file, below the home directory
	configured bool           // it is below the platform's directory for configurations instead
	movedBy    string         // an environment variable that may name the directory of the file, or ""
	project    string         // below the project's directory; "" if the client has no such file
	key        string         // the servers' key in the file; "" means mcpServers
	fields     map[string]any // a server's other fields
	// own is the client's command that changes the client's file, for a file in TOML. It is "" for a
	// file in JSON, which botwired edits.
	own string
	// IsProvider: the client has no server, and loads a folder in place of user, which has the server's name.
	IsProvider bool
}

// File returns the path of the user's file, or with project, of the file in the working directory.
func (c *Client) File(project bool) (string, error) {
	if project {
		if c.project == "" {
			return "", fmt.Errorf("%s has no file of a project that botwired changes: leave --project out", c.Title)
		}
		return filepath.Abs(filepath.FromSlash(c.project))
	}
	file := filepath.FromSlash(c.user)
	if dir := os.Getenv(c.movedBy); filepath.IsAbs(dir) {
		if c.IsProvider {
			file = filepath.Join("plugins", filepath.Base(file))
		} else {
			file = filepath.Base(file)
		}
		return filepath.Join(dir, file), nil
	}
	base := os.UserHomeDir
	if c.configured {
		base = os.UserConfigDir
	}
	dir, err := base()
	return filepath.Join(dir, file), err
}

// Place returns the path of the file, or of the folder, that a change of the server changes.
func (c *Client) Place(s Server, project bool) (string, error) {
	file, err := c.File(project)
	if c.IsProvider {
		file = filepath.Join(filepath.Dir(file), s.Name)
	}
	return file, err
}

func (c *Client) serversKey() string { return cmp.Or(c.key, "mcpServers") }

// Entry returns the server's part of the client's file.
func (c *Client) Entry(s Server) string {
	if c.IsProvider {
		return folderEntry(s)
	}
	if c.own != "" {
		return fmt.Sprintf("[%s.%s]\ncommand = %s\nargs = %s\n", c.serversKey(), s.Name, compact(s.Program), compact(s.Args))
	}
	text, _ := c.edit(nil, s, false) // an edit of an empty file cannot fail
	return string(text)
}

func (c *Client) members(s Server) map[string]any {
	out := map[string]any{"command": s.Program, "args": s.Args}
	maps.Copy(out, c.fields)
	return out
}

// Own returns the client's own command that adds or removes a server. It returns nil if botwired edits
// the file, or if the command is not in PATH.
func (c *Client) Own(s Server, remove bool) (words []string) {
	if c.own == "" {
		return nil
	}
	if _, err := exec.LookPath(c.own); err != nil {
		return nil
	}
	if remove {
		return []string{c.own, "mcp", "remove", s.Name}
	}
	return append([]string{c.own, "mcp", "add", s.Name, "--", s.Program}, s.Args...)
}

// Change says what happened to a client's file.
type Change struct {
	File    string
	Backup  string // the previous file; "" if there was none, or if nothing changed
	Changed bool
}

// Change adds a server to the client's file, or with remove takes it out. project chooses the file: see
// File.
func (c *Client) Change(ctx context.Context, s Server, project, remove bool) (done Change, err error) {
	if done.File, err = c.Place(s, project); err != nil {
		return done, err
	}
	if c.IsProvider {
		return changeFolder(done.File, s, remove)
	}
	before, err := read(done.File)
	if err != nil {
		return done, err
	}
	after, own := before, c.Own(s, remove)
	switch {
	case own != nil:
	case c.own != "":
		return done, fmt.Errorf("%s is not in PATH, and botwired does not write %s itself", c.Title, done.File)
	default:
		if after, err = c.edit(before, s, remove); err != nil {
			return done, fmt.Errorf("%s is unchanged: %w", done.File, err)
		}
		if bytes.Equal(before, after) {
			return done, nil
		}
	}
	saved, err := save(done.File, before)
	if err != nil {
		return done, err
	}
	if own == nil {
		err = replace(done.File, before, after, project)
	} else {
		err = c.runOwn(ctx, own, done.File, s, remove)
	}
	after, failed := read(done.File)
	done.Changed = failed == nil && !bytes.Equal(before, after)
	switch {
	case saved == "":
	case done.Changed:
		done.Backup = done.File + ".botwired.bak"
		failed = errors.Join(failed, os.Rename(saved, done.Backup))
	default:
		failed = errors.Join(failed, os.Remove(saved))
	}
	if err = errors.Join(err, failed); err != nil && done.Backup != "" {
		err = fmt.Errorf("%w; %s as it was is in %s", err, done.File, done.Backup)
	}
	return done, err
}

// runOwn runs the client's own command, and then checks the file: a command may succeed without
// changing anything.
func (c *Client) runOwn(ctx context.Context, own []string, file string, s Server, remove bool) error {
	output, err := exec.CommandContext(ctx, own[0], own[1:]...).CombinedOutput() //nolint:gosec // the words are the table's, and the server's
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(own, " "), err, bytes.TrimSpace(output))
	}
	text, err := read(file)
	if err != nil {
		return err
	}
	table := fmt.Sprintf("[%s.%s]", c.serversKey(), s.Name)
	switch there := bytes.Contains(text, []byte(table)); {
	case there && remove:
		return fmt.Errorf("%q has left the server in %s: take %s out by hand", strings.Join(own, " "), file, table)
	case !there && !remove:
		return fmt.Errorf("%q has put no %s into %s: put it in by hand", strings.Join(own, " "), table, file)
	}
	return nil
}

// read returns a file's text, or nothing if the file does not exist.
func read(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0: // a rename would replace the link by a file
		return nil, fmt.Errorf("%s is unchanged: it is a symbolic link", file)
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return nil, fmt.Errorf("%s is unchanged: it is no regular file", file)
	}
	return os.ReadFile(file)
}

// save writes a file's text to a temporary file in the same directory, and returns its name; "" if the
// file does not exist.
func save(file string, text []byte) (name string, err error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return writeBeside(file, text, info.Mode().Perm())
}

func writeBeside(file string, text []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".botwired-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// replace replaces a file's text atomically, and keeps its mode. It fails if another program has
// changed the file since it was read.
func replace(file string, before, after []byte, project bool) error {
	mode := fs.FileMode(0o600)
	if project {
		mode = 0o644 // others may read it
	}
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	name, err := writeBeside(file, after, mode)
	if err != nil {
		return err
	}
	if now, again := read(file); again != nil || !bytes.Equal(now, before) {
		err = errors.Join(again, fmt.Errorf("another program has just changed %s: try again", file))
	} else {
		err = os.Rename(name, file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// Find returns the client with a name.
func Find(name string) (*Client, bool) {
	for _, c := range clients {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
}

// Clients returns the known clients.
func Clients() []*Client { return slices.Clone(clients) }

// compact returns a value as JSON. For a string or a list of strings, TOML is the same.
func compact(value any) string {
	out, _ := json.Marshal(value) //nolint:errchkjson // strings do not fail
	return string(out)
}
