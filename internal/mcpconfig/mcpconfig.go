// Package mcpconfig owns the configuration files of MCP clients: where each client keeps its
// file, the shape in which that file names an MCP server, and edits that change this server and
// nothing else. It imports nothing of the project.
//
// An edit is a change of a few bytes. Comments, order, indentation and line ends of everything
// else stay. Each edit is parsed again and compared with what it was to be: a file that this
// package cannot edit so is refused, and stays as it is.
package mcpconfig

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Server is an MCP server that a client starts and talks to over stdin and stdout.
type Server struct {
	Name    string // by which the client shows it
	Command string // an absolute path
	Args    []string
}

// ErrByHand says that a file is valid and that an edit of it is a person's.
var ErrByHand = errors.New("the entry is written in a way that botwired does not edit")

// format edits the text of a configuration file. A text without content is an empty
// configuration.
type format interface {
	// set returns the text with the fields of a server, and leaves its other fields.
	set(text []byte, at []string, fields []field) ([]byte, error)
	// remove returns the text without what is at a place, or the text itself.
	remove(text []byte, at []string) ([]byte, error)
	// has reports whether there is something at a place.
	has(text []byte, at []string) (bool, error)
}

// field is one setting of a server: a string, a list of strings or a list of anything.
type field struct {
	name  string
	value any
}

// Client is a program that uses MCP servers.
type Client struct {
	Name  string // on a command line
	Title string // as its makers write it
	// After says what makes the client read its file again.
	After string

	user    func(Place) string
	project string // below the project's directory; "" if the client has no such file
	key     string // of the table of servers
	format  format
	extra   []field // that the client wants besides command and args
}

// Place says where the files of a user are.
type Place struct {
	GOOS   string
	Home   string
	Getenv func(string) string
}

// File is the path of the user's file, whether or not it exists.
func (c *Client) File(p Place) string { return c.user(p) }

// ProjectFile is the path of the file in a project, or "" if the client has none.
func (c *Client) ProjectFile(dir string) string {
	if c.project == "" {
		return ""
	}
	return filepath.Join(dir, filepath.FromSlash(c.project))
}

// Add returns a file's text with the server in it. If it is there as it should be, the result
// is the text itself.
func (c *Client) Add(text []byte, s Server) ([]byte, error) {
	args := make([]any, len(s.Args))
	for i, each := range s.Args {
		args[i] = each
	}
	fields := append(append([]field{}, c.extra...), field{"command", s.Command}, field{"args", args})
	return c.format.set(text, c.at(s.Name), fields)
}

// Remove returns a file's text without the server. If it is not there, the result is the text
// itself.
func (c *Client) Remove(text []byte, name string) ([]byte, error) {
	return c.format.remove(text, c.at(name))
}

// Has reports whether a file's text has a server of that name.
func (c *Client) Has(text []byte, name string) (bool, error) {
	return c.format.has(text, c.at(name))
}

func (c *Client) at(name string) []string { return []string{c.key, name} }

// Find returns the client of a name.
func Find(name string) (*Client, bool) {
	for _, c := range Clients() {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
}

// kinds of values, as messages name them.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "true or false"
	}
	return "a number or a time"
}

// table returns the table at a key of another one, or nil if there is none.
func table(in map[string]any, key string) (map[string]any, error) {
	value, there := in[key]
	if !there {
		return nil, nil
	}
	out, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%q is %s, and has to be an object", key, kindOf(value))
	}
	return out, nil
}

// lookup returns the table at a place of two names, or nil if there is none.
func lookup(root map[string]any, at []string) (map[string]any, error) {
	servers, err := table(root, at[0])
	if err != nil || servers == nil {
		return nil, err
	}
	return table(servers, at[1])
}

// with returns a copy of a document in which a server has the fields.
func with(root map[string]any, at []string, fields []field) map[string]any {
	out := without(root, at)
	servers, server := copied(out[at[0]]), map[string]any{}
	if before, ok := root[at[0]].(map[string]any); ok {
		server = copied(before[at[1]])
	}
	for _, f := range fields {
		server[f.name] = f.value
	}
	servers[at[1]] = server
	out[at[0]] = servers
	return out
}

// without returns a copy of a document that lacks a server.
func without(root map[string]any, at []string) map[string]any {
	out := copied(root)
	if servers, ok := out[at[0]].(map[string]any); ok {
		servers = copied(servers)
		delete(servers, at[1])
		out[at[0]] = servers
	}
	return out
}

func copied(value any) map[string]any {
	out := map[string]any{}
	if in, ok := value.(map[string]any); ok {
		for key, each := range in {
			out[key] = each
		}
	}
	return out
}
