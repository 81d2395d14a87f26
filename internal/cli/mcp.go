package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/mcp"
	"github.com/botwired/botwired/internal/mcpconfig"
	"github.com/botwired/botwired/internal/serverlog"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

type mcpOptions struct {
	namespace *string
	readOnly  *bool
}

func newMCPOptions(cmd *cobra.Command) mcpOptions {
	return mcpOptions{
		namespace: namespaceFlag(cmd, "the only `namespace` of the client, whose tools then take none"),
		readOnly:  cmd.Flags().Bool("read-only", false, "leave out the tools that write"),
	}
}

func (o mcpOptions) check() error {
	if *o.namespace != "" && wire.CheckNamespace(*o.namespace) != nil {
		return Usagef("--namespace = %q: expected 1 to 64 characters of a-z, A-Z, 0-9, _ and -", *o.namespace)
	}
	return nil
}

var mcpSettings = append([]string{"config", "data_dir", "upstream.url", "flush.drain_timeout", "log.level"}, ClientSettings...)

func newMCPCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Offer the memory to an MCP client, over stdin and stdout",
		GroupID: GroupServices,
		Long: "Offer the memory as tools of the Model Context Protocol to the client that starts this command, over\n" +
			"its stdin and stdout. It keeps nothing itself: all such commands, and all agents, share the\n" +
			"one daemon at the address. If no daemon of this account answers there, the command starts one with its own flags and\n" +
			"settings, as botwired run does: that daemon ends after the last command that uses it, and flushes first.\n" +
			"\"botwired mcp install\" has a client start this command. The log goes to stderr.",
		Example: "  botwired mcp install --client claude-code\n" +
			"  botwired mcp --namespace project-x --read-only",
		Args: NoArguments,
	}
	options := newMCPOptions(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := options.check(); err != nil {
			return err
		}
		return serveMCP(cmd.Context(), p, settings, options)
	}
	settings.Takes(cmd, AllSettings()...) // it passes them to the daemon that it starts
	HideSettings(cmd, mcpSettings...)
	cmd.AddCommand(newMCPInstallCommand(p, settings))
	return cmd
}

// serveMCP serves the client on stdin and stdout until the client closes stdin or ctx ends. It starts
// before the daemon is ready: a client's first requests do not need it.
func serveMCP(ctx context.Context, p *Program, settings *Settings, options mcpOptions) error {
	use, err := p.attaches("botwired mcp", settings)
	if err != nil {
		return err
	}
	var logger *slog.Logger
	use.Waiting = func(reason string) { logger.Info("waiting for the daemon", "reason", term.Printable(reason)) }
	use.Elsewhere = func(text string) { logger.Warn(term.Printable(text)) }
	link, err := attach.NewLink(use)
	if err != nil {
		return err
	}
	token, err := use.Loaded.Config.Token()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a client that goes away must not cut off the daemon's last flush
	logger = p.Open(serverlog.LevelOf(use.Loaded.Config.Log))
	server := mcp.New(mcp.Options{
		Daemon:    api.Options{Listen: use.Loaded.Config.Listen, Token: token, Transport: link},
		Namespace: *options.namespace, ReadOnly: *options.readOnly,
		Version: build.Version(), Logger: logger,
	})
	serving, fail := context.WithCancelCause(ctx)
	attached := make(chan struct{})
	go func() {
		defer close(attached)
		if err := link.Attach(serving); err != nil && serving.Err() == nil {
			fail(err)
		}
	}()
	err = server.ServeStdio(serving, p.Stdin, p.Stdout)
	if cause := context.Cause(serving); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	} else if ctx.Err() != nil {
		err = nil // clients also end it with a signal
	}
	fail(nil)
	<-attached
	if said := link.Close(context.WithoutCancel(ctx)); said != "" {
		logger.Warn(said)
	}
	return err
}

type mcpInstall struct {
	process  *Program
	settings *Settings
	options  mcpOptions
	loaded   *config.Loaded

	client  string
	name    string
	project bool
	print   bool
	remove  bool
}

func newMCPInstallCommand(p *Program, settings *Settings) *cobra.Command {
	in := &mcpInstall{process: p, settings: settings}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Have an MCP client start botwired mcp",
		Long: "Have an MCP client start this program as \"botwired mcp\", with the flags given here, by a change of the client's\n" +
			"configuration file: everything else in it stays as it is. An entry that is there already keeps its other members,\n" +
			"such as env. Codex' file is changed by Codex' own command, which writes the entry anew. A copy of the file before\n" +
			"the last change stays beside it. The client's server does not have the environment of this shell: the settings in\n" +
			"its BOTWIRED_ variables become flags. A secret among them does not, and the command says so. Hermes gets a memory\n" +
			"provider in place of a server, as a folder that it loads: it keeps every turn, and has the same tools.",
		Example: "  botwired mcp install --client claude-code --print   # look, and change nothing\n" +
			"  botwired mcp install --client cursor --namespace project-x --project\n" +
			"  botwired mcp install --client cursor --remove",
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return in.run(cmd.Context()) },
	}
	in.options = newMCPOptions(cmd)
	flags := cmd.Flags()
	flags.StringVar(&in.client, "client", "", "the `client`: "+strings.Join(clientNames(), ", "))
	flags.StringVar(&in.name, "name", "botwired", "the server's `name` in the client")
	flags.BoolVar(&in.project, "project", false, "write the file of the project in the working directory, in place of the user's")
	flags.BoolVar(&in.print, "print", false, "print what the file gets, and write nothing")
	flags.BoolVar(&in.remove, "remove", false, "take the server out again")
	settings.Takes(cmd, AllSettings()...)
	HideSettings(cmd, mcpSettings...)
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(clientNames(), cobra.ShellCompDirectiveNoFileComp)) // fails only without such a flag
	return cmd
}

func clientNames() (names []string) {
	for _, c := range mcpconfig.Clients() {
		names = append(names, c.Name)
	}
	return names
}

func (in *mcpInstall) run(ctx context.Context) (err error) {
	if err := in.options.check(); err != nil {
		return err
	}
	if wire.CheckNamespace(in.name) != nil { // all clients accept these characters
		return Usagef("--name = %q: expected 1 to 64 characters of a-z, A-Z, 0-9, _ and -", in.name)
	}
	if in.loaded, err = in.settings.Load(nil); err != nil { // so that an error shows here, not in the client
		return err
	}
	if in.client == "" {
		return Usagef("say which client: --client NAME, one of %s", strings.Join(clientNames(), ", "))
	}
	client, known := mcpconfig.Find(in.client)
	if !known {
		return Usagef("--client = %q: expected one of %s", in.client, strings.Join(clientNames(), ", "))
	}
	if _, isSocket := in.loaded.Config.Socket(); isSocket && client.IsProvider {
		return Usagef("listen = %q: %s needs an address that goes into a URL, such as 127.0.0.1:2689", in.loaded.Config.Listen, client.Title)
	}
	if client.IsProvider && !in.remove && *in.options.namespace == "" && in.loaded.Config.IsPublic(mcpconfig.HermesNamespace) {
		return Usagef("%s would keep every turn in the namespace %s of %s, where everybody can read and write it: "+
			"seal %[2]s* (docs/one-memory.md), or name a namespace that nobody guesses: --namespace NAME",
			client.Title, mcpconfig.HermesNamespace, in.loaded.Config.Upstream.URL)
	}
	server, err := in.server()
	if err != nil {
		return err
	}
	if !in.remove {
		for _, variable := range in.settings.kept(in.loaded) {
			in.process.say(fmt.Sprintf("botwired: the client's server does not get %s: it holds a secret, which a client's file is no place for. "+
				"Name the file of the secret in it ({\"NAME\": {\"file\": \"/path\"}}), or in a configuration file, for --config\n", variable))
		}
	}
	if in.print {
		return in.show(client, server)
	}
	if !in.remove {
		in.process.say(WarningOfCache(server.Program))
	}
	done, err := client.Change(ctx, server, in.project, in.remove)
	if err != nil {
		return fmt.Errorf("%w: \"botwired mcp install --client %s --print\" shows what to put in", words.Unusable(err), client.Name)
	}
	facts := [][2]string{{"file", done.File}, {"state", "unchanged"}}
	if done.Changed {
		next := strings.ReplaceAll(client.After, "NAME", in.name)
		if in.remove {
			next = cmp.Or(client.AfterRemoval, next)
		}
		if in.project && client.AfterProject != "" && !in.remove {
			next = client.AfterProject + ", and " + next
		}
		facts = [][2]string{{"changed", done.File}, {"next", client.Title + ": " + next}}
	}
	if done.Backup != "" {
		facts = append(facts, [2]string{"backup", done.Backup})
	}
	if name := *in.options.namespace; name != "" && !in.remove && in.loaded.Config.IsPublic(name) {
		facts = append(facts, [2]string{"public", fmt.Sprintf("the namespace %s of %s: everybody who guesses its name can read and write it. "+
			"docs/one-memory.md seals it", name, in.loaded.Config.Upstream.URL)})
	}
	return term.Facts(in.process.Stdout, facts)
}

func (in *mcpInstall) show(client *mcpconfig.Client, server mcpconfig.Server) error {
	file, err := client.Place(server, in.project)
	if err != nil {
		return err
	}
	if own := client.Own(server, in.remove); own != nil {
		_, err = fmt.Fprintf(in.process.Stderr, "botwired: this would change %s: %s\n", term.Printable(file), term.Printable(strings.Join(own, " ")))
	} else if in.remove {
		_, err = fmt.Fprintf(in.process.Stderr, "botwired: %s would lose this:\n", term.Printable(file))
	} else {
		_, err = fmt.Fprintf(in.process.Stderr, "botwired: %s would hold this, and whatever else is in it:\n", term.Printable(file))
	}
	_, failed := fmt.Fprint(in.process.Stdout, client.Entry(server))
	return errors.Join(err, failed)
}

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
	flags, err := in.settings.absolute(in.loaded)
	return mcpconfig.Server{
		Name: in.name, Program: program, Args: append(args, flags...),
		Memory: mcpconfig.Memory{
			Namespace: *in.options.namespace, ReadOnly: *in.options.readOnly, Flags: flags, Tools: mcp.Describe(*in.options.readOnly),
		},
	}, err
}

// absolute returns the flags of the given settings, and of those in the environment, with absolute paths: a
// client starts its servers in its own directory and environment. The name of a NATS context stays a name. A
// relative path in upstream.headers is an error. A secret in the environment is left out: see kept.
func (f *Settings) absolute(loaded *config.Loaded) ([]string, error) {
	flags := *f
	flags.values = maps.Clone(f.values)
	for i, setting := range config.Settings() {
		if loaded.Values[i].Source == f.fromVariable(setting) && !f.isKept(setting) {
			flags.values[setting.Name], _ = f.variable(setting.Env())
		}
		if value, given := flags.values[setting.Name]; given && setting.IsPath(value) {
			flags.values[setting.Name] = loaded.Values[i].Value
		}
	}
	if header, file := config.RelativeHeaderFile(flags.values["upstream.headers"]); header != "" {
		return nil, Usagef("--upstream-headers: the file of %s is %q: expected an absolute path or one from ~/, "+
			"as the client starts botwired in its own directory", header, file)
	}
	if _, named := f.variable(config.EnvFile); named || f.file != "" {
		flags.file = loaded.File
	}
	return flags.settingArguments(), nil
}

// kept returns the variables that do not go into a client's file, because they hold a secret.
func (f *Settings) kept(loaded *config.Loaded) (variables []string) {
	for i, setting := range config.Settings() {
		if loaded.Values[i].Source == f.fromVariable(setting) && f.isKept(setting) {
			variables = append(variables, setting.Env())
		}
	}
	return variables
}

func (f *Settings) fromVariable(s config.Setting) config.Source {
	return config.Source{Layer: config.FromEnvironment, Name: s.Env()}
}

// isKept reports whether a setting's variable holds a secret, and not only the name of a file that does.
func (f *Settings) isKept(s config.Setting) bool {
	value, _ := f.variable(s.Env())
	return s.Secret && config.HasPlainHeader(value)
}

// variable returns a variable of the environment. Its name is one of botwired's.
func (f *Settings) variable(name string) (value string, is bool) {
	for _, each := range f.process.Environ {
		key, text, _ := strings.Cut(each, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			value, is = text, true
		}
	}
	return value, is
}

// ownPath returns the absolute path of this program. It prefers the path in which a shell finds it: an
// update may move the file behind a link.
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

// WarningOfCache returns a warning if the program is in the cache of uvx or npx: once the cache is
// emptied, the client does not find its server.
func WarningOfCache(program string) string {
	for folder, instead := range map[string]string{"/archive-v": "uv tool install botwired", "/_npx/": "npm install --global botwired"} {
		if strings.Contains(filepath.ToSlash(program), folder) {
			return fmt.Sprintf("botwired: %s is in a cache, and the client finds no server once that is emptied. "+
				"To keep it: %s, then \"botwired mcp install\" again\n", term.Printable(program), instead)
		}
	}
	return ""
}
