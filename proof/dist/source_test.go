package main

import (
	"os"
	"strings"
	"testing"
)

// A source archive that lies in another repository is no commit of that one.
func TestSourceInAnotherRepository(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "--allow-empty", "-m", "other"},
	} {
		if _, err := output(t.Context(), "git", args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("botwired", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir("botwired")
	if err := os.WriteFile("go.mod", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := readSource(t.Context())
	if err == nil || !strings.Contains(err.Error(), "clone of botwired") {
		t.Errorf("made of %+v, %v", src, err)
	}
}
