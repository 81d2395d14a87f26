package mcp

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/botwired/botwired/internal/keyname"
)

// maxValue is how many characters BotWire accepts in a value.
const maxValue = 100_000

// Arguments shared by several tools.
var (
	namespaceArgument = argument{
		name: "namespace", required: true, most: 64, pattern: regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
		about:   "The namespace, such as my-agent.",
		accepts: "1 to 64 characters, each a letter a-z or A-Z, a digit, _ or -",
	}
	keyArgument = argument{
		name: "key", required: true, most: 128, key: true,
		about:   "The key within the namespace, such as user.name or customer:8.",
		accepts: "a text of 1 to 128 characters, such as user.name or customer:8",
	}
	valueArgument = argument{
		name: "value", required: true, most: maxValue, json: true,
		about:   "The text. Anything that is no text goes in as JSON, written as text.",
		accepts: "a text of at most 100000 characters",
	}
	versionArgument = argument{
		name: "if_version", most: 100, pattern: regexp.MustCompile(`^[!#-~]+$`),
		about:   `Only if the entry still has this version, from memory_read; "absent" means only if there is no such entry.`,
		accepts: `a version that another tool has given, or "absent"`,
	}
	prefixArgument = argument{
		name: "prefix", most: 128,
		about:   "Only keys that begin with this.",
		accepts: "the beginning of a key: at most 128 characters",
	}
	afterArgument = argument{
		name: "after", most: 200,
		about:   "Goes on where an answer was cut: its next.",
		accepts: "the next of the answer before",
	}
)

func limitArgument(of string, byDefault, most int) argument {
	return argument{
		name: "limit", number: true, least: 1, most: most, byDefault: byDefault, about: "How many " + of + " at most.",
	}
}

type toolset struct {
	daemon    *daemon
	namespace string // the only namespace, or ""
	readOnly  bool
}

// within returns the arguments of a tool for one namespace, which is the first. A fixed one is not described, and
// a model that names another is told.
func (s *toolset) within(others ...argument) []argument {
	namespace := namespaceArgument
	namespace.only, namespace.required = s.namespace, s.namespace == ""
	return append([]argument{namespace}, others...)
}

func (s *toolset) namespaceOf(in arguments) string {
	if s.namespace != "" {
		return s.namespace
	}
	return in.text("namespace")
}

// shownKey returns the key of a call for the agent.
func shownKey(in arguments) string { return keyname.Format(in.text("key")) }

func (s *toolset) all() []tool {
	all := []tool{
		s.readTool(), s.writeTool(), s.appendTool(), s.deleteTool(),
		s.listTool(), s.searchTool(), s.recentTool(), s.historyTool(), s.undoTool(),
	}
	if s.readOnly {
		return slices.DeleteFunc(all, func(t tool) bool { return t.effect != reads })
	}
	return all
}

// Describe returns the tools of one namespace, which none of them names, as JSON: a list of name, description and
// parameters, as models' functions have them.
func Describe(readOnly bool) json.RawMessage {
	type function struct {
		Name        string             `json:"name"`
		Description string             `json:"description"`
		Parameters  *jsonschema.Schema `json:"parameters"`
	}
	var out []function
	for _, t := range (&toolset{namespace: "fixed", readOnly: readOnly}).all() {
		out = append(out, function{t.name, t.about, schemaOf(t.arguments)})
	}
	text, err := encode(out)
	if err != nil {
		panic(err) // only for tools in this package
	}
	return text
}

// moment formats a time for people and models: RFC 3339, in UTC. It returns "" for an unknown time.
func moment(unix float64) string {
	if unix == 0 {
		return ""
	}
	const micro = 1e6
	return time.UnixMicro(int64(unix * micro)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// cut returns at most most characters of a text, starting at character from, and the text's length in
// characters.
func cut(text string, from, most int) (part string, characters int) {
	start, end := len(text), len(text)
	for i := range text {
		switch characters {
		case from:
			start = i
		case from + most:
			end = i
		}
		characters++
	}
	if start > end {
		end = start
	}
	return text[start:end], characters
}
