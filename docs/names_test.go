package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
)

// vocabulary is what a page may name of botwired's. Other tests hold its sources to the code:
// commands.md to the commands, metrics.md to the daemon's registry, http.md to its surface.
type vocabulary struct {
	commands  map[string]map[string]bool // by name, such as "dead-letters retry": the flags
	flags     map[string]bool            // of any command, and of the settings
	settings  map[string]bool
	groups    map[string]bool // of settings
	variables map[string]bool
	metrics   map[string]bool
	endpoints map[string]bool // "status", "dead-letters/retry"
	targets   map[string]bool
	files     map[string]bool
}

// notSettings look like settings and are none.
var notSettings = []string{
	"journal.quota",                     // files of the data directory
	"upstream.reason", "upstream.state", // fields of the status
}

var (
	commandHeading = regexp.MustCompile("^### `botwired(?: ([a-z -]+))?`$")
	commandFlag    = regexp.MustCompile("^\\| (?:`-[a-z]`, )?`(--[a-z-]+)")
	metricRow      = regexp.MustCompile("^\\| `(botwired_[a-z_]+)` \\|")
)

func readVocabulary(t *testing.T) *vocabulary {
	t.Helper()
	r := readRepository(t)
	v := &vocabulary{
		commands: make(map[string]map[string]bool), flags: map[string]bool{"--config": true, "--help": true}, settings: make(map[string]bool),
		groups: make(map[string]bool), variables: map[string]bool{config.EnvFile: true, "BOTWIRED_AUTHOR": true}, metrics: make(map[string]bool),
		endpoints: map[string]bool{"": true, "assets": true, "dead-letters/{id}": true, "as": true}, targets: r.targets, files: r.files,
	}
	for _, s := range config.Settings() {
		v.settings[s.Name], v.variables[s.Env()], v.flags["--"+s.Flag()] = true, true, true
		if s.Alias != "" {
			v.flags["--"+s.Alias] = true
		}
		if group, _, nested := strings.Cut(s.Name, "."); nested {
			v.groups[group] = true
		}
	}
	var flags map[string]bool
	for text := range strings.Lines(readDoc(t, "commands.md")) {
		text = strings.TrimSpace(text)
		if m := commandHeading.FindStringSubmatch(text); m != nil {
			flags = make(map[string]bool)
			v.commands[m[1]] = flags
		} else if m := commandFlag.FindStringSubmatch(text); m != nil && flags != nil {
			flags[m[1]], v.flags[m[1]] = true, true
		}
	}
	for text := range strings.Lines(readDoc(t, "metrics.md")) {
		if m := metricRow.FindStringSubmatch(text); m != nil {
			v.metrics[m[1]] = true
		}
	}
	for operation := range endpoints(t) {
		_, name, _ := strings.Cut(operation, " ")
		v.endpoints[name] = true
	}
	if len(v.commands) < 25 || len(v.metrics) < 20 || len(v.settings) < 30 {
		t.Fatalf("only %d commands, %d metrics and %d settings were found", len(v.commands), len(v.metrics), len(v.settings))
	}
	return v
}

var (
	dotted      = regexp.MustCompile(`^([a-z]+)\.[a-z_]+$`)
	flagWord    = regexp.MustCompile(`^--[a-z][a-z-]*`)
	variable    = regexp.MustCompile(`\bBOTWIRED_[A-Z_]+`)
	metric      = regexp.MustCompile(`\bbotwired_[a-z_]+`)
	surfacePath = regexp.MustCompile(`/_botwired(?:/([a-zA-Z0-9_./{}-]*))?`)
	histogram   = regexp.MustCompile(`_(bucket|sum|count)$`)
	filePath    = regexp.MustCompile(`^(docs|deploy|examples|proof|cmd|internal|proxy|upstream|journal|\.github|\.ci)/[\w./-]+$`)
	simple      = regexp.MustCompile(`\|\||&&|[|<>();]|\$\(`)
	shellWord   = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"]+)+`)
)

// span says what is wrong with the names in a piece of code in a sentence.
func (v *vocabulary) span(text string) (faults []string) {
	fault := func(what, name string) { faults = append(faults, "there is no "+what+" "+name) }
	if m := dotted.FindStringSubmatch(text); m != nil && v.groups[m[1]] && !v.settings[text] && !slices.Contains(notSettings, text) {
		fault("setting", text)
	}
	if name := flagWord.FindString(text); name != "" && !v.flags[name] {
		fault("flag", name)
	}
	for _, name := range metric.FindAllString(text, -1) { // in a block, it may be a file's name
		if !v.metrics[name] && !v.metrics[histogram.ReplaceAllString(name, "")] {
			fault("metric", name)
		}
	}
	if target, ok := strings.CutPrefix(text, "make "); ok {
		if target, _, _ = strings.Cut(target, " "); !v.targets[target] && target != strings.ToUpper(target) {
			fault("target", target)
		}
	}
	if filePath.MatchString(text) && !v.files[strings.TrimSuffix(text, "/")] {
		fault("file", text)
	}
	return append(faults, v.line(text)...)
}

// line says what is wrong with the names in a line of commands, or in a piece of code.
func (v *vocabulary) line(text string) (faults []string) {
	fault := func(what, name string) { faults = append(faults, "there is no "+what+" "+name) }
	for _, name := range variable.FindAllString(text, -1) {
		if !v.variables[name] {
			fault("variable", name)
		}
	}
	for _, m := range surfacePath.FindAllStringSubmatch(text, -1) {
		first, _, _ := strings.Cut(m[1], "/")
		if !v.endpoints[m[1]] && !v.endpoints[first] && !v.endpoints[first+"/{id}"] && !v.endpoints[first+"/{seq}"] {
			fault("endpoint", m[0])
		}
	}
	text, _, _ = strings.Cut(text, " # ")
	for _, command := range simple.Split(text, -1) {
		faults = append(faults, v.command(shellWord.FindAllString(command, -1))...)
	}
	return faults
}

// command says what is wrong with a call of botwired, in the words of a shell.
func (v *vocabulary) command(words []string) (faults []string) {
	for len(words) > 0 && (words[0] == "$" || strings.Contains(words[0], "=") || words[0] == "sudo" || words[0] == "exec" || words[0] == "!") {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "botwired" && words[0] != "bin/botwired" && words[0] != "./botwired" {
		return nil
	}
	name := ""
	var flags map[string]bool
	for _, word := range words[1:] {
		longer := strings.TrimSpace(name + " " + word)
		switch {
		case word == "--":
			return faults // another command begins
		case strings.HasPrefix(word, "--"):
			word, _, _ = strings.Cut(word, "=")
			word = strings.Trim(word, "[]")
			if !flags[word] && !v.flags[word] || flags != nil && !flags[word] && !v.everyCommandHas(word) {
				faults = append(faults, "botwired "+name+" has no flag "+word)
			}
		case v.commands[longer] != nil:
			name, flags = longer, v.commands[longer]
		case name == "" && regexp.MustCompile(`^[a-z]`).MatchString(word) && !v.follows(words, word):
			return append(faults, "there is no command botwired "+word)
		}
	}
	return faults
}

// follows reports whether a word is the value of the flag before it.
func (v *vocabulary) follows(words []string, word string) bool {
	i := slices.Index(words, word)
	return i > 1 && strings.HasPrefix(words[i-1], "--") && !strings.Contains(words[i-1], "=")
}

// everyCommandHas reports whether a flag is one that a page may give to any command: a setting's, as those that a
// command does not read are an error that names the command which does.
func (v *vocabulary) everyCommandHas(flag string) bool {
	return flag == "--config" || flag == "--help" || slices.ContainsFunc(config.Settings(), func(s config.Setting) bool {
		return "--"+s.Flag() == flag || s.Alias != "" && "--"+s.Alias == flag
	})
}

// Every setting, command, flag, variable, metric, endpoint, target and file that a page names exists.
func TestNamesExist(t *testing.T) {
	v := readVocabulary(t)
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" {
			continue // it names what was
		}
		for _, l := range p.prose {
			for _, span := range code.FindAllString(l.text, -1) {
				for _, fault := range v.span(strings.Trim(span, "`")) {
					t.Errorf("%s:%d: %s", p.path, l.number, fault)
				}
			}
		}
		for _, b := range p.blocks {
			if b.language != "sh" && b.language != "console" || b.has("fails") && b.has("shows") {
				continue // what fails as the page says may be misspelt
			}
			for text := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				for _, fault := range v.line(text) {
					t.Errorf("%s:%d: %s", p.path, b.number, fault)
				}
			}
		}
	}
}

// The rule itself refuses what it is there for.
func TestNamesOfNothingAreSeen(t *testing.T) {
	v := readVocabulary(t)
	for text, works := range map[string]bool{
		"flush.linger": true, "flush.lingers": false, "journal.quota": true, "agent.py": true,
		"--flush-linger 200ms": true, "--flush-lingers": false, "--json": true, "--upstream": true,
		"BOTWIRED_FLUSH_LINGER=1s": true, "BOTWIRED_FLUSH_LINGERS": false, "BOTWIRED_CONFIG": true,
		"botwired_pending": true, "botwired_request_seconds_bucket": true, "botwired_pendings": false,
		"GET /_botwired/status?namespaces=3": true, "/_botwired/": true, "/_botwired/stati": false,
		"POST /_botwired/dead-letters/7/retry": true, "/_botwired/receipts/17": true,
		"botwired": true, "botwired status --watch": true, "botwired stat": false, "botwired status --wach": false,
		"botwired status --flush-linger": true, "botwired set --if-match \"$tag\" a b": true, "botwired get --if-match x a b": false,
		"botwired dead-letters retry --all": true, "botwired dead-letters --all": false, "x=$(bin/botwired lits)": false,
		"botwired run -- npm start --wach": true, "botwired --listen 127.0.0.1:1 status": true,
		"make test": true, "make tests": false, "docs/http.md": true, "docs/httpd.md": false, "python --wach": true,
	} {
		if faults := v.span(text); (len(faults) == 0) != works {
			t.Errorf("%q: %q", text, faults)
		}
	}
}
