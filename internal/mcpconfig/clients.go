package mcpconfig

import (
	"path/filepath"
	"slices"
)

// The ways in which clients read their files again.
const (
	restart    = "restart it"
	newSession = "start a new session"
	byItself   = "it reads the file by itself"
)

// clients follow each client's own documentation.
var clients = []*Client{
	{
		// https://modelcontextprotocol.io/docs/develop/connect-local-servers
		Name: "claude", Title: "Claude Desktop", After: restart,
		user: func(p Place) string { return p.support("Claude", "claude_desktop_config.json") },
		key:  "mcpServers", format: jsonFormat{strict: true},
	},
	{
		// https://code.claude.com/docs/en/mcp
		Name: "claude-code", Title: "Claude Code", After: newSession,
		user:    func(p Place) string { return filepath.Join(p.or("CLAUDE_CONFIG_DIR", p.Home), ".claude.json") },
		project: ".mcp.json",
		key:     "mcpServers", format: jsonFormat{strict: true}, extra: []field{{"type", "stdio"}},
	},
	{
		// https://developers.openai.com/codex/mcp
		Name: "codex", Title: "Codex", After: newSession,
		user:    func(p Place) string { return filepath.Join(p.or("CODEX_HOME", p.home(".codex")), "config.toml") },
		project: ".codex/config.toml",
		key:     "mcp_servers", format: tomlFormat{},
	},
	{
		// https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference
		Name: "copilot", Title: "GitHub Copilot CLI", After: newSession,
		user: func(p Place) string {
			return filepath.Join(p.or("COPILOT_HOME", p.home(".copilot")), "mcp-config.json")
		},
		key: "mcpServers", format: jsonFormat{}, extra: []field{{"type", "local"}, {"tools", []any{"*"}}},
	},
	{
		// https://cursor.com/docs/context/mcp
		Name: "cursor", Title: "Cursor", After: restart,
		user:    func(p Place) string { return p.home(".cursor", "mcp.json") },
		project: ".cursor/mcp.json",
		key:     "mcpServers", format: jsonFormat{},
	},
	{
		// https://geminicli.com/docs/tools/mcp-server/
		Name: "gemini", Title: "Gemini CLI", After: newSession,
		user:    func(p Place) string { return p.home(".gemini", "settings.json") },
		project: ".gemini/settings.json",
		key:     "mcpServers", format: jsonFormat{},
	},
	{
		// https://kiro.dev/docs/mcp/configuration/
		Name: "kiro", Title: "Kiro", After: byItself,
		user:    func(p Place) string { return p.home(".kiro", "settings", "mcp.json") },
		project: ".kiro/settings/mcp.json",
		key:     "mcpServers", format: jsonFormat{},
	},
	{
		// https://lmstudio.ai/docs/app/mcp
		Name: "lm-studio", Title: "LM Studio", After: restart,
		user: func(p Place) string { return p.home(".lmstudio", "mcp.json") },
		key:  "mcpServers", format: jsonFormat{},
	},
	{
		// https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
		Name: "vscode", Title: "VS Code", After: "start the server in its list \"MCP: List Servers\"",
		user:    func(p Place) string { return p.support("Code", "User", "mcp.json") },
		project: ".vscode/mcp.json",
		key:     "servers", format: jsonFormat{}, extra: []field{{"type", "stdio"}},
	},
	{
		// https://docs.windsurf.com/windsurf/cascade/mcp
		Name: "windsurf", Title: "Windsurf", After: "refresh its MCP servers",
		user: func(p Place) string { return p.home(".codeium", "windsurf", "mcp_config.json") },
		key:  "mcpServers", format: jsonFormat{},
	},
	{
		// https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
		Name: "zed", Title: "Zed", After: byItself,
		user:    zedFile,
		project: ".zed/settings.json",
		key:     "context_servers", format: jsonFormat{},
	},
}

func zedFile(p Place) string {
	dir := p.home(".config")
	switch p.GOOS {
	case "windows":
		dir = p.roaming()
	case "linux":
		dir = p.or("XDG_CONFIG_HOME", dir)
	}
	if p.GOOS == "windows" {
		return filepath.Join(dir, "Zed", "settings.json")
	}
	return filepath.Join(dir, "zed", "settings.json")
}

func (p Place) home(below ...string) string {
	return filepath.Join(append([]string{p.Home}, below...)...)
}

// or is a directory that a variable of the environment may name.
func (p Place) or(variable, otherwise string) string {
	if dir := p.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}

func (p Place) roaming() string { return p.or("APPDATA", p.home("AppData", "Roaming")) }

// support is where desktop programs keep their files on each platform.
func (p Place) support(below ...string) string {
	dir := ""
	switch p.GOOS {
	case "darwin":
		dir = p.home("Library", "Application Support")
	case "windows":
		dir = p.roaming()
	default:
		dir = p.or("XDG_CONFIG_HOME", p.home(".config"))
	}
	return filepath.Join(append([]string{dir}, below...)...)
}

// Clients returns the clients that this package knows, by name.
func Clients() []*Client { return slices.Clone(clients) }
