package mcpconfig

import (
	"os"
	"path/filepath"
	"runtime"
)

// How to make a client read its file again.
const (
	restart    = "restart it"
	newSession = "start a new session"
	byItself   = "it reads the file by itself"
)

// clients lists the known clients, according to their own documentation.
var clients = []*Client{
	{
		// https://modelcontextprotocol.io/docs/develop/connect-local-servers
		Name: "claude", Title: "Claude Desktop", After: restart,
		user: below(true, "Claude", "claude_desktop_config.json"),
		key:  "mcpServers",
	},
	{
		// https://code.claude.com/docs/en/mcp
		Name: "claude-code", Title: "Claude Code", After: newSession,
		user:    moved("CLAUDE_CONFIG_DIR", "", ".claude.json"),
		project: ".mcp.json",
		key:     "mcpServers", fields: map[string]any{"type": "stdio"},
	},
	{
		// https://developers.openai.com/codex/mcp
		Name: "codex", Title: "Codex", After: newSession,
		user: moved("CODEX_HOME", ".codex", "config.toml"),
		key:  "mcp_servers", own: "codex",
	},
	{
		// https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference
		Name: "copilot", Title: "GitHub Copilot CLI", After: newSession,
		user: moved("COPILOT_HOME", ".copilot", "mcp-config.json"),
		key:  "mcpServers", fields: map[string]any{"type": "local", "tools": []string{"*"}},
	},
	{
		// https://cursor.com/docs/context/mcp
		Name: "cursor", Title: "Cursor", After: restart,
		user:    below(false, ".cursor", "mcp.json"),
		project: ".cursor/mcp.json",
		key:     "mcpServers",
	},
	{
		// https://geminicli.com/docs/tools/mcp-server/
		Name: "gemini", Title: "Gemini CLI", After: newSession,
		AfterProject: "trust this folder, or Gemini CLI does not read its file",
		user:         below(false, ".gemini", "settings.json"),
		project:      ".gemini/settings.json",
		key:          "mcpServers",
	},
	{
		// https://kiro.dev/docs/mcp/configuration/
		Name: "kiro", Title: "Kiro", After: byItself,
		user:    below(false, ".kiro", "settings", "mcp.json"),
		project: ".kiro/settings/mcp.json",
		key:     "mcpServers",
	},
	{
		// https://lmstudio.ai/docs/app/mcp
		Name: "lm-studio", Title: "LM Studio", After: restart,
		user: below(false, ".lmstudio", "mcp.json"),
		key:  "mcpServers",
	},
	{
		// https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
		Name: "vscode", Title: "VS Code", After: "start the server in its list \"MCP: List Servers\"",
		user:    below(true, "Code", "User", "mcp.json"),
		project: ".vscode/mcp.json",
		key:     "servers", fields: map[string]any{"type": "stdio"}, // code --add-mcp cannot remove a server
	},
	{
		// https://docs.windsurf.com/windsurf/cascade/mcp
		Name: "windsurf", Title: "Windsurf", After: "refresh its MCP servers",
		user: below(false, ".codeium", "windsurf", "mcp_config.json"),
		key:  "mcpServers",
	},
	{
		// https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
		Name: "zed", Title: "Zed", After: byItself,
		user:    zedFile,
		project: ".zed/settings.json",
		key:     "context_servers",
	},
}

// below returns the path of a file in the user's home directory, or with configured in the platform's
// configuration directory.
func below(configured bool, names ...string) func(home, config string) string {
	return func(home, config string) string {
		if configured {
			home = config
		}
		return filepath.Join(append([]string{home}, names...)...)
	}
}

// moved returns the path of a file in a directory of the home, or in the directory that an environment
// variable names.
func moved(variable, dir, name string) func(home, config string) string {
	return func(home, _ string) string {
		if at := os.Getenv(variable); filepath.IsAbs(at) {
			return filepath.Join(at, name)
		}
		return filepath.Join(home, dir, name)
	}
}

func zedFile(home, config string) string {
	switch runtime.GOOS {
	case "windows":
		return filepath.Join(config, "Zed", "settings.json")
	case "darwin":
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "zed", "settings.json")
}
