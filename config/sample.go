package config

import (
	"cmp"
	"fmt"
	"strings"
)

const (
	// sampleWidth is the largest line length of a sample's comments, in bytes.
	sampleWidth = 100
	// sampleDataDir is data_dir in the sample if the user has no home.
	sampleDataDir = "/var/lib/botwired"
)

// intros introduce the groups of settings. The intro of settings without a group has the name of their
// first one.
var intros = map[string]string{
	"listen":     "The daemon as a whole.",
	"upstream":   "The memory service that the daemon stands in front of.",
	"embedded":   "The memory service inside the daemon, for upstream.url: embedded.",
	"cache":      "Copies of upstream's entries, and how long they count.",
	"history":    "What entries have held before.",
	"journal":    "The pending writes on the disk.",
	"flush":      "How pending writes go upstream.",
	"quota":      "What upstream allows.",
	"auth":       "What callers must send.",
	"seal":       "What upstream cannot read.",
	"log":        "What the daemon logs.",
	"namespaces": "Settings of single namespaces.",
}

// DefaultFile returns the default path of the configuration file for an environment as from os.Environ.
// It returns "" if the user has no home.
func DefaultFile(environ []string) string {
	return placesOf(environ).configFile()
}

// Sample returns a configuration file with every setting commented out: its meaning, default and
// possible values. Lines of text begin with "# ", and settings with "#" alone. The file can be loaded
// as it is, and also with all settings uncommented.
func Sample(environ []string) string {
	w := &sampler{dataDir: DefaultDataDir(environ)}
	if w.dataDir == "" {
		w.dataDir = sampleDataDir
	}
	w.head(DefaultFile(environ))
	open := "none"
	usual, _ := Check(Sources{}) // for a user without a home and settings
	for i, s := range Settings() {
		group, name, nested := strings.Cut(s.Name, ".")
		if !nested {
			group, name = "", s.Name
		}
		if group != open {
			open = group
			w.group(group, s.Name)
		}
		w.setting(s, name, cmp.Or(s.Default, usual.Values[i].Default))
	}
	return w.text.String()
}

type sampler struct {
	text    strings.Builder
	dataDir string
	indent  string
}

func (w *sampler) head(place string) {
	if place == "" {
		place = "any file"
	}
	w.prose("botwired's configuration. Every setting is here with its default, commented out: " +
		`to change one, take away the "#" in front of it.`)
	w.prose("Put this at " + place + ", where every command looks for it, or name another place with --config or " + EnvFile + ".")
	w.prose(`A flag (--flush-linger) wins over the environment (BOTWIRED_FLUSH_LINGER), and that over this file. ` +
		`"botwired config validate" checks this file, and "botwired config" shows the values in force.`)
	w.prose("A running daemon takes over a change of the settings marked [SIGHUP] when it gets that signal, and of the others when it is started again.")
}

// group begins a group. If name is "", it begins the settings without a group, and first is the first
// of these.
func (w *sampler) group(name, first string) {
	w.indent = ""
	w.text.WriteString("\n")
	w.prose(intros[cmp.Or(name, first)])
	if name != "" {
		w.text.WriteString(name + ":\n")
		w.indent = "  "
	}
}

func (w *sampler) setting(s Setting, name, value string) {
	shown := cmp.Or(s.Documented, s.Default)
	if s.Name == "data_dir" {
		value, shown = w.dataDir, w.dataDir
	}
	doc, mark := unmarked(s.Doc), ""
	if s.Live {
		mark = " [SIGHUP]"
	}
	w.text.WriteString("\n")
	w.prose(strings.ToUpper(doc[:1]) + doc[1:] + "." + mark)
	takes, _, _ := strings.Cut(s.codec.expected, " (JSON")
	w.prose(fmt.Sprintf("Takes %s. Default: %s.", takes, unmarked(shown)))
	if s.Name == "namespaces" {
		w.prose(`Such as [{match: "chats-*", prefetch: true}, {match: "scratch-*", cache.fresh_for: 1h}].`)
		w.prose("A namespace may have of its own: " + strings.Join(names(overridable()), ", ") + ".")
	}
	fmt.Fprintf(&w.text, "%s#%s: %s\n", w.indent, name, yamlValue(value))
}

func unmarked(text string) string { return strings.ReplaceAll(text, "`", "") }

func yamlValue(text string) string {
	if text == "" || strings.ContainsAny(text, ` #:\"'`) {
		return fmt.Sprintf("%q", text)
	}
	return text
}

func (w *sampler) prose(text string) {
	line := w.indent + "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > sampleWidth && line != w.indent+"#" {
			w.text.WriteString(line + "\n")
			line = w.indent + "#"
		}
		line += " " + word
	}
	w.text.WriteString(line + "\n")
}
