package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/mcp"
)

// A manifest is a file that a registry or a client reads. Its fields are those of its published format.
type (
	plugin struct { // https://code.claude.com/docs/en/plugins-reference
		Name        string            `json:"name"`
		Version     string            `json:"version"`
		Description string            `json:"description"`
		Author      map[string]string `json:"author"`
		Homepage    string            `json:"homepage"`
		Repository  string            `json:"repository"`
		License     string            `json:"license"`
		Keywords    []string          `json:"keywords"`
		UserConfig  map[string]struct {
			Type        string `json:"type"`
			Title       string `json:"title"`
			Description string `json:"description"`
			Required    bool   `json:"required"`
		} `json:"userConfig"`
	}
	marketplace struct { // https://code.claude.com/docs/en/plugin-marketplaces
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Owner       map[string]string `json:"owner"`
		Plugins     []struct {
			Name        string `json:"name"`
			Source      string `json:"source"`
			Description string `json:"description"`
		} `json:"plugins"`
	}
	servers struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	registered struct { // https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json
		Schema      string            `json:"$schema"`
		Name        string            `json:"name"`
		Title       string            `json:"title"`
		Description string            `json:"description"`
		Version     string            `json:"version"`
		Repository  map[string]string `json:"repository"`
		Packages    []struct {
			RegistryType     string            `json:"registryType"`
			Identifier       string            `json:"identifier"`
			Version          string            `json:"version"`
			RuntimeHint      string            `json:"runtimeHint"`
			Transport        map[string]string `json:"transport"`
			PackageArguments []struct {
				Type  string `json:"type"`
				Value string `json:"value"`
			} `json:"packageArguments"`
		} `json:"packages"`
	}
)

// readManifest reads a file of the repository into a manifest that has all of its fields.
func readManifest(t *testing.T, manifest any, path ...string) {
	t.Helper()
	file, err := os.Open(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	in := json.NewDecoder(file)
	in.DisallowUnknownFields()
	if err := in.Decode(manifest); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
}

// packageVersion is the version of the next release, as the Python package has it.
func packageVersion(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^version = "(.+)"$`).FindStringSubmatch(readDoc(t, "../clients/python/pyproject.toml"))
	if m == nil {
		t.Fatal("pyproject.toml has no version")
	}
	return m[1]
}

var toolName = regexp.MustCompile("`(memory_[a-z]+)`")

// Claude Code finds the plugin in the marketplace, its server is botwired mcp, and its skill names tools that there are.
func TestPluginOfClaudeCode(t *testing.T) {
	var of plugin
	readManifest(t, &of, "clients", "claude-code", ".claude-plugin", "plugin.json")
	if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(of.Name) || of.Version != packageVersion(t) || of.Author["name"] == "" || of.Description == "" {
		t.Errorf("the plugin is %+v", of)
	}
	var market marketplace
	readManifest(t, &market, ".claude-plugin", "marketplace.json")
	if len(market.Plugins) != 1 || market.Plugins[0].Name != of.Name || market.Plugins[0].Source != "./clients/claude-code" ||
		market.Plugins[0].Description != of.Description || market.Owner["name"] == "" {
		t.Errorf("the marketplace is %+v", market)
	}
	var list servers
	readManifest(t, &list, "clients", "claude-code", ".mcp.json")
	if s := list.Servers["botwired"]; len(list.Servers) != 1 || s.Command != "botwired" || !slices.Equal(s.Args, []string{"mcp", "--namespace", "${user_config.namespace}"}) {
		t.Errorf("the servers are %+v", list)
	}
	// Claude Code asks for it. Without an answer, or with a variable of the shell, the server would just not start.
	if asked := of.UserConfig["namespace"]; len(of.UserConfig) != 1 || asked.Type != "string" || asked.Title == "" || asked.Description == "" || !asked.Required {
		t.Errorf("the plugin asks for %+v", of.UserConfig)
	}
	skill := readDoc(t, "../clients/claude-code/skills/memory/SKILL.md")
	head, body, _ := strings.Cut(strings.TrimPrefix(skill, "---\n"), "\n---\n")
	name, about, _ := strings.Cut(head, "\n")
	if name != "name: memory" || !strings.HasPrefix(about, "description: ") || strings.Contains(about, "\n") || len(about) > 1024 || strings.Contains(about[13:], ": ") {
		t.Errorf("the skill begins with %q", head)
	}
	tools := string(mcp.Describe(false))
	named := toolName.FindAllStringSubmatch(body, -1)
	for _, m := range named {
		if !strings.Contains(tools, `"name":"`+m[1]+`"`) && m[1] != "memory_state" { // which is a field of results
			t.Errorf("the skill names the tool %s, which there is not", m[1])
		}
	}
	for _, needed := range []string{"memory_write", "memory_read", "memory_undo"} {
		if !slices.ContainsFunc(named, func(m []string) bool { return m[1] == needed }) {
			t.Errorf("the skill does not say when to use %s", needed)
		}
	}
}

// The registry of MCP servers finds its own name for the server in each package, and the version of the release.
func TestServerOfTheRegistry(t *testing.T) {
	var server registered
	readManifest(t, &server, "server.json")
	const name = "io.github.botwired/botwired" // of the GitHub organisation
	if server.Name != name || len(server.Description) > 100 || server.Version != packageVersion(t) || server.Repository["source"] != "github" ||
		!strings.HasSuffix(server.Schema, "/server.schema.json") {
		t.Errorf("the server is %+v", server)
	}
	hints := map[string]string{"npm": "npx", "pypi": "uvx"}
	for _, p := range server.Packages {
		if p.RuntimeHint != hints[p.RegistryType] || p.Identifier != "botwired" || p.Version != server.Version || p.Transport["type"] != "stdio" ||
			len(p.PackageArguments) != 1 || p.PackageArguments[0].Type != "positional" || p.PackageArguments[0].Value != "mcp" {
			t.Errorf("a package is %+v", p)
		}
	}
	if len(server.Packages) != len(hints) {
		t.Errorf("there are %d packages", len(server.Packages))
	}
	var npm struct {
		Name string `json:"name"`
		MCP  string `json:"mcpName"`
	}
	if err := json.Unmarshal([]byte(readDoc(t, "../clients/node/package.json")), &npm); err != nil || npm.MCP != name || npm.Name != "botwired" {
		t.Errorf("npm's package is %+v, %v", npm, err)
	}
	if !strings.Contains(readDoc(t, "../clients/python/README.md"), "mcp-name: "+name+" ") {
		t.Error("the page of PyPI's package does not name the server")
	}
}
