package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/mcpconfig"
)

// The modes of a client's file that does not exist yet: a project's may go to others.
const (
	clientFileMode  = 0o600
	projectFileMode = 0o644
)

// serverName is by what names clients know a server.
var serverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// mcpInstall is one "botwired mcp install".
type mcpInstall struct {
	process  *process
	settings *settingFlags
	options  mcpOptions
	loaded   *config.Loaded

	client  string
	name    string
	project bool
	print   bool
	remove  bool
	json    *bool
}

func newMCPInstallCommand(p *process, settings *settingFlags) *cobra.Command {
	in := &mcpInstall{process: p, settings: settings}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Have an MCP client start botwired mcp",
		Long: "Write a server into the configuration file of an MCP client: it starts this program as \"botwired mcp\",\n" +
			"with the flags given here. A copy of the file before stays beside it, and everything else in the file stays\n" +
			"as it is. Without --client, install lists the clients that it finds here, and changes nothing.",
		Example: "  botwired mcp install                              # the clients found here\n" +
			"  botwired mcp install --client claude-code --print   # look, and change nothing\n" +
			"  botwired mcp install --client cursor --namespace project-x --project\n" +
			"  botwired mcp install --client cursor --remove",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return in.run() },
	}
	in.options = newMCPOptions(cmd)
	flags := cmd.Flags()
	flags.StringVar(&in.client, "client", "", "the `client`: "+strings.Join(clientNames(), ", "))
	flags.StringVar(&in.name, "name", "botwired", "the server's `name` in the client")
	flags.BoolVar(&in.project, "project", false, "write the file of the project in the working directory, in place of the user's")
	flags.BoolVar(&in.print, "print", false, "print what the file gets, and write nothing")
	flags.BoolVar(&in.remove, "remove", false, "take the server out again")
	in.json = jsonFlag(cmd)
	settings.takes(cmd, allSettings()...)
	hideSettings(cmd, mcpSettings...)
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(clientNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func clientNames() (names []string) {
	for _, c := range mcpconfig.Clients() {
		names = append(names, c.Name)
	}
	return names
}

func (in *mcpInstall) run() (err error) {
	if err := in.options.check(); err != nil {
		return err
	}
	if !serverName.MatchString(in.name) {
		return usagef("--name = %q: expected 1 to 64 characters of a-z, A-Z, 0-9, _ and -", in.name)
	}
	if in.loaded, err = in.settings.load(nil); err != nil { // so that a mistake shows here, and not in the client
		return err
	}
	if in.client == "" {
		return in.list()
	}
	client, known := mcpconfig.Find(in.client)
	if !known {
		return usagef("--client = %q: expected one of %s", in.client, strings.Join(clientNames(), ", "))
	}
	file, err := in.file(client)
	if err != nil {
		return err
	}
	if in.remove {
		return in.takeOut(client, file)
	}
	return in.putIn(client, file)
}

// file is where the client's servers are.
func (in *mcpInstall) file(client *mcpconfig.Client) (string, error) {
	if in.project {
		dir, err := os.Getwd()
		if err != nil {
			return "", err
		}
		file := client.ProjectFile(dir)
		if file == "" {
			return "", usagef("--project: %s has no file for a project: leave the flag out", client.Title)
		}
		return file, nil
	}
	place, err := in.place()
	if err != nil {
		return "", err
	}
	return client.File(place), nil
}

func (in *mcpInstall) place() (mcpconfig.Place, error) {
	environ := in.process.environ
	variable := "HOME"
	if runtime.GOOS == "windows" {
		variable = "USERPROFILE"
	}
	home := valueIn(environ, variable)
	if !filepath.IsAbs(home) {
		return mcpconfig.Place{}, fmt.Errorf("%s = %q: expected your home directory, in which the clients keep their files", variable, home)
	}
	return mcpconfig.Place{GOOS: runtime.GOOS, Home: home, Getenv: func(name string) string { return valueIn(environ, name) }}, nil
}

// server is the entry that the file gets.
func (in *mcpInstall) server() (mcpconfig.Server, error) {
	program, err := ownPath()
	if err != nil {
		return mcpconfig.Server{}, err
	}
	args := []string{"mcp"}
	if *in.options.namespace != "" {
		args = append(args, "--namespace="+*in.options.namespace)
	}
	if *in.options.readOnly {
		args = append(args, "--read-only")
	}
	return mcpconfig.Server{Name: in.name, Command: program, Args: append(args, in.settings.absolute(in.loaded)...)}, nil
}

// absolute are the flags of the settings given. A client starts its servers in a directory of its
// own, so no path is relative.
func (f *settingFlags) absolute(loaded *config.Loaded) []string {
	flags := *f
	flags.values = make(map[string]string, len(f.values))
	for name, value := range f.values {
		switch name {
		case "data_dir":
			value = loaded.Config.DataDir
		case "auth.token_file":
			value = loaded.Config.Auth.TokenFile
		}
		flags.values[name] = value
	}
	if f.file != "" {
		flags.file = loaded.File
	}
	return flags.settingArguments()
}

// ownPath is the absolute path of this program: the name by which a shell finds it, if it does,
// because an update may move the file behind that.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("botwired cannot find its own program: %w", err)
	}
	found, err := exec.LookPath("botwired")
	if err != nil || !filepath.IsAbs(found) {
		return self, nil //nolint:nilerr // the shell does not find it
	}
	one, errOne := os.Stat(self)
	other, errOther := os.Stat(found)
	if errors.Join(errOne, errOther) == nil && os.SameFile(one, other) {
		return found, nil
	}
	return self, nil
}

func (in *mcpInstall) putIn(client *mcpconfig.Client, file string) error {
	server, err := in.server()
	if err != nil {
		return err
	}
	in.process.say(warningOfCache(server.Command))
	add := func(text []byte) ([]byte, error) {
		out, err := client.Add(text, server)
		return out, in.refused(client, file, err)
	}
	if in.print {
		text, err := mcpconfig.Read(file)
		if err == nil {
			_, err = add(text)
		}
		if err != nil && !errors.Is(err, mcpconfig.ErrByHand) {
			return unusable(err)
		}
		entry, err := client.Add(nil, server)
		if err != nil {
			return err
		}
		fmt.Fprintf(in.process.stderr, "botwired: %s would hold this, and whatever else is in it:\n", printable(file))
		_, err = in.process.stdout.Write(entry)
		return err
	}
	done, err := in.edit(file, add)
	if err != nil {
		return err
	}
	in.warnOfEnvironment()
	return in.report(client, done, "written", "unchanged: it has this server already")
}

func (in *mcpInstall) takeOut(client *mcpconfig.Client, file string) error {
	take := func(text []byte) ([]byte, error) {
		out, err := client.Remove(text, in.name)
		return out, in.refused(client, file, err)
	}
	if in.print {
		text, err := mcpconfig.Read(file)
		if err != nil {
			return unusable(err)
		}
		if _, err := take(text); err != nil {
			return err
		}
		said := "%s has no server %s: --remove would leave it as it is\n"
		if there, err := client.Has(text, in.name); err == nil && there {
			said = "%s would lose the server %s\n"
		}
		_, err = fmt.Fprintf(in.process.stdout, said, printable(file), in.name)
		return err
	}
	done, err := in.edit(file, take)
	if err != nil {
		return err
	}
	return in.report(client, done, "removed from", "unchanged: it has no server "+in.name)
}

func (in *mcpInstall) edit(file string, change func([]byte) ([]byte, error)) (mcpconfig.Edited, error) {
	mode := fs.FileMode(clientFileMode)
	if in.project {
		mode = projectFileMode
	}
	done, err := mcpconfig.Edit(file, mode, in.process.now(), change)
	if err != nil {
		return done, unusable(err)
	}
	return done, nil
}

// refused says which file cannot be edited, and that it stays as it is.
func (in *mcpInstall) refused(client *mcpconfig.Client, file string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mcpconfig.ErrByHand) && in.remove:
		return fmt.Errorf("%s is unchanged: %w: take out the server %s yourself", file, err, in.name)
	case errors.Is(err, mcpconfig.ErrByHand):
		return fmt.Errorf("%s is unchanged: %w: \"botwired mcp install --client %s --print\" shows what to put in", file, err, client.Name)
	}
	return fmt.Errorf("%s is unchanged: %w: mend it, and try again", file, err)
}

// report says what has become of the file.
func (in *mcpInstall) report(client *mcpconfig.Client, done mcpconfig.Edited, changed, unchanged string) error {
	if !done.Changed {
		return printFacts(in.process.stdout, [][2]string{{"file", done.File}, {"state", unchanged}})
	}
	facts := [][2]string{{changed, done.File}}
	if done.Backup != "" {
		facts = append(facts, [2]string{"backup", done.Backup})
	}
	return printFacts(in.process.stdout, append(facts, [2]string{"next", client.Title + ": " + client.After}))
}

// warnOfEnvironment names the variables that are in force here, and that the client may not have.
func (in *mcpInstall) warnOfEnvironment() {
	var names []string
	for _, value := range in.loaded.Values {
		if value.Source.Layer == config.FromEnvironment {
			names = append(names, value.Source.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	in.process.say("botwired: the client's server does not get " + strings.Join(slices.Compact(names), ", ") +
		" from this environment: give the setting as a flag, or put it into the configuration file\n")
}

// caches are folders in which uvx and others keep programs for a while: the folder's name, or its
// beginning, the tool, and how it keeps botwired for good.
var caches = []struct{ folder, tool, instead string }{
	{"archive-v", "uvx", "uv tool install botwired"},
	{"_npx", "npx", "npm install --global botwired"},
}

// warningOfCache says that the client will not find its server once the cache is emptied.
func warningOfCache(program string) string {
	for folder := range strings.SplitSeq(filepath.ToSlash(program), "/") {
		for _, cache := range caches {
			if strings.HasPrefix(folder, cache.folder) {
				return fmt.Sprintf("botwired: %s is in the cache of %s, and the client finds no server once that is emptied. "+
					"To keep it: %s, then \"botwired mcp install\" again\n", printable(program), cache.tool, cache.instead)
			}
		}
	}
	return ""
}

// foundClient is a client that is on this machine.
type foundClient struct {
	Client string `json:"client"`
	Title  string `json:"title"`
	File   string `json:"file"`
	Server string `json:"server"` // "configured", "none" or what is wrong with the file
}

// list shows the clients that have a file, or a directory for it.
func (in *mcpInstall) list() error {
	if in.remove || in.print {
		return usagef("--client is missing: expected one of %s", strings.Join(clientNames(), ", "))
	}
	found := []foundClient{}
	for _, client := range mcpconfig.Clients() {
		if in.project && client.ProjectFile("") == "" {
			continue
		}
		file, err := in.file(client)
		if err != nil {
			return err
		}
		if in.isHere(file) {
			found = append(found, foundClient{client.Name, client.Title, file, in.stateOf(client, file)})
		}
	}
	if *in.json {
		return encodeJSON(in.process.stdout, map[string]any{"clients": found})
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(in.process.stdout, "No client has a file here. --client takes: %s\n", strings.Join(clientNames(), ", "))
		return err
	}
	var rows [][]string
	for _, f := range found {
		rows = append(rows, []string{f.Client, f.Title, f.Server, f.File})
	}
	return printTable(in.process.screen(), []string{"CLIENT", "PROGRAM", "SERVER", "FILE"}, rows)
}

// isHere reports whether there is the file, or, for a user, a directory that nothing but the
// client makes.
func (in *mcpInstall) isHere(file string) bool {
	if _, err := os.Stat(file); err == nil {
		return true
	}
	place, err := in.place()
	dir := filepath.Dir(file)
	if in.project || err != nil || dir == filepath.Clean(place.Home) {
		return false
	}
	_, err = os.Stat(dir)
	return err == nil
}

func (in *mcpInstall) stateOf(client *mcpconfig.Client, file string) string {
	text, err := mcpconfig.Read(file)
	if err != nil {
		return reason(err)
	}
	switch has, err := client.Has(text, in.name); {
	case err != nil:
		return err.Error()
	case has:
		return "configured"
	}
	return "none"
}
