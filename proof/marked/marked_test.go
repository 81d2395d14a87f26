package marked

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func pageOf(t *testing.T, text string) string {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestAPartIsReplaced(t *testing.T) {
	page := pageOf(t, "before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nafter\n")
	row := "| " + strings.Repeat("wide ", 30) + "|\n"
	text := row + "\n" + strings.Repeat("word ", 30) + "\n"
	if err := Write(page, "a", text); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("word ", 23) + "word\n" // 119 characters
	want := row + "\n" + line + strings.Repeat("word ", 5) + "word\n"
	if got, err := Read(page, "a"); got != want || err != nil {
		t.Errorf("the part is %q, and not %q (%v)", got, want, err)
	}
	content, err := os.ReadFile(page)
	if whole := "before\n<!-- a -->\n" + want + "<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nafter\n"; string(content) != whole || err != nil {
		t.Errorf("the page is %q, and not %q (%v)", content, whole, err)
	}
}

// A page without the part stays as it is.
func TestAPageWithoutThePart(t *testing.T) {
	for _, text := range []string{"", "<!-- a -->\n", "<!-- /a -->\n<!-- a -->\n", "<!-- b -->\n<!-- /b -->\n"} {
		page := pageOf(t, text)
		if got, err := Read(page, "a"); err == nil {
			t.Errorf("%q has the part %q", text, got)
		}
		if err := Write(page, "a", "new\n"); err == nil {
			t.Errorf("%q has the part", text)
		}
		if content, err := os.ReadFile(page); string(content) != text || err != nil {
			t.Errorf("%q became %q (%v)", text, content, err)
		}
	}
}
