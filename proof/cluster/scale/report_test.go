package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNumbersAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		850 * time.Microsecond: "850 µs", 1250 * time.Microsecond: "1.2 ms", 34 * time.Millisecond: "34 ms",
		1500 * time.Millisecond: "1.5 s", 83 * time.Second: "83 s",
	} {
		if got := short(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// The table takes the place of the last one, and nothing else changes. A page without the marks is left alone.
func TestATableIsWritten(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	r := &result{Watched: delay{time.Millisecond, 2 * time.Millisecond}, Drained: 100, OverBucket: drain{time.Second}}
	for content, ok := range map[string]bool{"before\n<!-- scale -->\nold\n<!-- /scale -->\n\nafter\n": true, "no marks\n": false} {
		if err := os.WriteFile(page, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.write(t.Context(), page); (err == nil) != ok {
			t.Errorf("%q: %v", content, err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		got := string(text)
		if !ok {
			if got != content {
				t.Errorf("%q has become %q", content, got)
			}
			continue
		}
		if strings.Contains(got, "old") || !strings.Contains(got, "| 1.0 ms, 2.0 ms |") || !strings.Contains(got, "100 a second") ||
			!strings.HasPrefix(got, "before\n<!-- scale -->\n") || !strings.HasSuffix(got, "\n<!-- /scale -->\n\nafter\n") {
			t.Errorf("the page is %q", got)
		}
	}
}
