package docs

import (
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	code    = regexp.MustCompile("``.+?``|`[^`]+`")
	link    = regexp.MustCompile(`\]\(<?([^)\s>]+)>?[^)]*\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	marked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|[*` + "`" + `]`)
)

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(marked.ReplaceAllString(heading, "$1")) {
		switch {
		case r == ' ' || r == '-':
			b.WriteRune('-')
		case r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// anchors are those to which a link may lead.
func (p *page) anchors() map[string]bool {
	found, count := make(map[string]bool), make(map[string]int)
	for _, l := range p.prose {
		for _, m := range anchor.FindAllStringSubmatch(l.text, -1) {
			found[m[1]] = true
		}
		m := heading.FindStringSubmatch(l.text)
		if m == nil {
			continue
		}
		name := slug(m[1])
		if n := count[name]; n > 0 {
			found[name+"-"+strconv.Itoa(n)] = true
		} else {
			found[name] = true
		}
		count[name]++
	}
	return found
}

// leads says what is wrong with a link from a page; empty if nothing is. Nobody follows links to
// other hosts: the tests talk to loopback only.
func leads(from, target string, files map[string]bool, anchors map[string]map[string]bool) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.Host != "" {
		return ""
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if !files[to] {
		return "there is no " + to
	}
	if u.Fragment != "" && !anchors[to][u.Fragment] {
		return to + " has no heading with the anchor #" + u.Fragment
	}
	return ""
}

// Every link leads to a file, and to a heading if it names one.
func TestLinksLeadSomewhere(t *testing.T) {
	all, files := pages(t), readRepository(t).files
	anchors := make(map[string]map[string]bool)
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	count := 0
	for _, p := range all {
		for _, l := range p.prose {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(l.text, "x"), -1) {
				count++
				if wrong := leads(p.path, m[1], files, anchors); wrong != "" {
					t.Errorf("%s:%d: %s", p.path, l.number, wrong)
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("only %d links were found", count)
	}
}

// The rule itself refuses what it is there for.
func TestLinksThatLeadNowhereAreSeen(t *testing.T) {
	files := map[string]bool{"README.md": true, "docs/http.md": true}
	p, err := parsePage("docs/http.md", "# The `a.b` [way](x.md), *once*\n\n## Once\n\n## Once\n\n```text\n# no heading\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]map[string]bool{p.path: p.anchors()}
	for target, works := range map[string]bool{
		"docs/http.md": true, "docs/http.md#the-ab-way-once": true, "docs/http.md#once-1": true, "https://botwire.dev": true, "README.md": true,
		"http.md": false, "docs/http.md#twice": false, "docs/http.md#no-heading": false, "#once": false, "docs": false,
	} {
		if wrong := leads("README.md", target, files, anchors); (wrong == "") != works {
			t.Errorf("%s: %q", target, wrong)
		}
	}
	if wrong := leads("docs/http.md", "#once", files, anchors); wrong != "" {
		t.Error(wrong)
	}
}
