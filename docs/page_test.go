package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's, seen from this folder.
const root = ".."

// A page is a Markdown file that a reader follows. The rules for its blocks:
//
//   - The runner runs each block fenced as sh, in order, unless the block is "tried by" something else.
//     The runner says where: see TestPages.
//   - Comments on the lines before a block say more about it. They are listed in blockMarks.
//   - The runner does not run blocks of any other language.
type page struct {
	path   string // from the root: "docs/quickstart.md"
	lines  []string
	blocks []block
	prose  []line // without what is in blocks
}

// line is a line of prose with its number, from 1.
type line struct {
	number int
	text   string
}

// block is what stands between two fences.
type block struct {
	number   int // of the line with the first fence
	language string
	text     string
	marks    []mark
}

// mark is a comment before a block: <!-- name: value -->, or <!-- name -->.
type mark struct{ name, value string }

// blockMarks are the marks, and whether each has a value.
var blockMarks = map[string]bool{
	"background": false, // the block runs a server, which goes on until the page ends or a block "stops" it
	"stops":      false, // Ctrl-C ends the servers of the page before this block runs
	"fails":      false, // the block exits with another code than 0
	"shows":      true,  // the block's output contains the value
	"runs as":    true,  // the runner runs the value, as the block needs more than a folder; it is "tried by" something, too
	"tried by":   true,  // the block needs more than a folder: a test, a make target or a script tries the same
}

// languages are those of the blocks that nobody runs. A block of commands is sh: another name for
// a shell would hide it from the runner.
var languages = []string{"console", "dockerfile", "go", "http", "ini", "js", "json", "powershell", "python", "text", "toml", "xml", "yaml"}

// followed reports whether a reader follows the page's blocks to its end.
func (p *page) followed() bool {
	return p.path == "README.md" || p.path == "INSTALL_FOR_AGENTS.md" || strings.HasPrefix(p.path, "docs/")
}

// has reports whether a block has a mark.
func (b block) has(name string) bool { return len(b.values(name)) > 0 }

// values are those of all marks of a name.
func (b block) values(name string) (values []string) {
	for _, m := range b.marks {
		if m.name == name {
			values = append(values, m.value)
		}
	}
	return values
}

var (
	fence   = regexp.MustCompile("^( *)```([A-Za-z]*) *$")
	comment = regexp.MustCompile(`^ *<!-- ([a-z ]+?)(?:: (.*?))? -->$`)
)

// pagePaths are the files that the tests of this package read as pages.
func pagePaths(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			path, err = filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, filepath.ToSlash(path))
		}
	}
	return paths
}

func pages(t *testing.T) []*page {
	t.Helper()
	var all []*page
	for _, path := range pagePaths(t) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsePage(path, string(text))
		if err != nil {
			t.Error(err)
		}
		all = append(all, p)
	}
	return all
}

// parsePage returns the page also with an error, which says what is wrong with a block.
func parsePage(path, text string) (*page, error) {
	p := &page{path: path, lines: strings.Split(text, "\n")}
	var open *block
	var marks []mark
	indent := ""
	for i, content := range p.lines {
		at := fence.FindStringSubmatch(content)
		switch {
		case open != nil && at != nil && at[2] == "":
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(content, indent) + "\n"
		case at != nil:
			open, indent, marks = &block{number: i + 1, language: at[2], marks: marks}, at[1], nil
		default:
			p.prose = append(p.prose, line{i + 1, content})
			if m := comment.FindStringSubmatch(content); m == nil {
				marks = nil
			} else if _, known := blockMarks[m[1]]; known {
				marks = append(marks, mark{m[1], m[2]})
			}
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s:%d: the block does not end", path, open.number)
	}
	return p, nil
}

// faults returns what is wrong with the form of the page's blocks.
func (p *page) faults() (faults []string) {
	fault := func(b block, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: %s", p.path, b.number, fmt.Sprintf(format, args...)))
	}
	for _, b := range p.blocks {
		if b.language != "sh" {
			if !slices.Contains(languages, b.language) {
				fault(b, "%q is no language of a block: commands are sh, and of the others there are %s", b.language, strings.Join(languages, ", "))
			}
			if len(b.marks) > 0 {
				fault(b, "only a block of sh has marks: %v", b.marks)
			}
			continue
		}
		for _, m := range b.marks {
			if blockMarks[m.name] != (m.value != "") {
				fault(b, "the mark %q has a value, or lacks one", m.name)
			}
		}
		if b.has("runs as") && !b.has("tried by") {
			fault(b, "nobody tries the block itself")
		}
		if b.has("background") && (b.has("fails") || b.has("shows")) {
			fault(b, "nobody waits for the end of a block in the background: it cannot fail or show anything")
		}
	}
	return faults
}

func TestBlocksOfPages(t *testing.T) {
	for _, p := range pages(t) {
		if p.followed() {
			for _, fault := range p.faults() {
				t.Error(fault)
			}
		}
		if !strings.HasPrefix(p.lines[0], "# ") {
			t.Errorf("%s: the first line is no title", p.path)
		}
	}
}

// The parser sees what it is there for.
func TestFaultsOfBlocksAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"```bash\nmake\n```\n":                               "is no language",
		"```\nmake\n```\n":                                   "is no language",
		"<!-- fails -->\n```yaml\na: b\n```\n":               "only a block of sh",
		"<!-- tried by -->\n```sh\nmake\n```\n":              "lacks one",
		"<!-- fails: often -->\n```sh\nmake\n```\n":          "lacks one",
		"<!-- background -->\n<!-- fails -->\n```sh\nx\n```": "in the background",
		"<!-- runs as: x -->\n```sh\nmake\n```\n":            "nobody tries",
		"```sh\nmake\n":                                      "does not end",
		"<!-- fails -->\n\n  ```sh\n  x\n  ```\n":            "",
	} {
		p, err := parsePage("x.md", "# x\n"+text)
		got := strings.Join(p.faults(), "\n")
		if err != nil {
			got += err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	p, err := parsePage("x.md", "<!-- shows: a -->\n<!-- shows: b -->\n  ```sh\n  x\n    y\n  ```\n")
	if err != nil || len(p.blocks) != 1 || p.blocks[0].text != "x\n  y\n" || strings.Join(p.blocks[0].values("shows"), " ") != "a b" {
		t.Errorf("%+v: %v", p.blocks, err)
	}
}
