package mcpconfig

import "runtime"

// How to make a client read its file again.
const (
	restart    = "restart it"
	newSession = "start a new session"
	byItself   = "it reads the file by itself"
)

// clients lists the known clients, according to their own documentation.
var clients = []*Client{
	// https://modelcontextprotocol.io/docs/develop/connect-local-servers
	{Name: "claude", Title: "Claude Desktop", After: restart, configured: true, user: "Claude/claude_desktop_config.json"},
	{
		// https://code.claude.com/docs/en/mcp
		Name: "claude-code", Title: "Claude Code", After: newSession,
		user: ".claude.json", movedBy: "CLAUDE_CONFIG_DIR", project: ".mcp.json",
		fields: map[string]any{"type": "stdio"},
	},
	{
		// https://developers.openai.com/codex/mcp
		Name: "codex", Title: "Codex", After: newSession,
		user: ".codex/config.toml", movedBy: "CODEX_HOME",
		key: "mcp_servers", own: "codex",
	},
	{
		// https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference
		Name: "copilot", Title: "GitHub Copilot CLI", After: newSession,
		user: ".copilot/mcp-config.json", movedBy: "COPILOT_HOME",
		fields: map[string]any{"type": "local", "tools": []string{"*"}},
	},
	// https://cursor.com/docs/context/mcp
	{Name: "cursor", Title: "Cursor", After: restart, user: ".cursor/mcp.json", project: ".cursor/mcp.json"},
	{
		// https://geminicli.com/docs/tools/mcp-server/
		Name: "gemini", Title: "Gemini CLI", After: newSession,
		AfterProject: "trust this folder, or Gemini CLI does not read its file",
		user:         ".gemini/settings.json", project: ".gemini/settings.json",
	},
	{
		// https://hermes-agent.nousresearch.com/docs/developer-guide/memory-provider-plugin
		Name: "hermes", Title: "Hermes", After: "run \"hermes memory setup NAME\", and start a new session",
		AfterRemoval: "choose another provider with \"hermes memory setup\"",
		user:         hermesFolder(), movedBy: "HERMES_HOME", IsProvider: true,
	},
	// https://kiro.dev/docs/mcp/configuration/
	{Name: "kiro", Title: "Kiro", After: byItself, user: ".kiro/settings/mcp.json", project: ".kiro/settings/mcp.json"},
	// https://lmstudio.ai/docs/app/mcp
	{Name: "lm-studio", Title: "LM Studio", After: restart, user: ".lmstudio/mcp.json"},
	{
		// https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
		Name: "vscode", Title: "VS Code", After: "start the server in its list \"MCP: List Servers\"",
		configured: true, user: "Code/User/mcp.json", project: ".vscode/mcp.json",
		key: "servers", fields: map[string]any{"type": "stdio"}, // code --add-mcp cannot remove a server
	},
	// https://docs.windsurf.com/windsurf/cascade/mcp
	{Name: "windsurf", Title: "Windsurf", After: "refresh its MCP servers", user: ".codeium/windsurf/mcp_config.json"},
	{
		// https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
		Name: "zed", Title: "Zed", After: byItself,
		configured: runtime.GOOS != "darwin", user: zedFile(), project: ".zed/settings.json",
		key: "context_servers",
	},
}

func zedFile() string {
	switch runtime.GOOS {
	case "windows":
		return "Zed/settings.json"
	case "darwin":
		return ".config/zed/settings.json"
	}
	return "zed/settings.json"
}

func hermesFolder() string {
	if runtime.GOOS == "windows" {
		return "AppData/Local/hermes/plugins/botwired"
	}
	return ".hermes/plugins/botwired"
}
