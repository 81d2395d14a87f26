package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

const (
	root  = "../.."
	fence = 17 // the point that is not built yet
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The lines of every row are where it says they are, and every point has a row.
func TestListIsUpToDate(t *testing.T) {
	list, err := readList("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	points := make(map[int]bool)
	for _, m := range list {
		points[m.point] = true
		texts := make(map[string]string)
		for _, e := range m.edits {
			if _, ok := texts[e.file]; !ok {
				text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
				if err != nil {
					t.Fatal(err)
				}
				texts[e.file] = string(text)
			}
			changed, err := e.apply(texts[e.file])
			if err != nil {
				t.Errorf("%s: %v", &m, err)
			}
			texts[e.file] = changed
		}
	}
	for point := 1; point <= 22; point++ {
		if !points[point] && point != fence {
			t.Errorf("no guard of point %d is taken out", point)
		}
	}
}

// The table in docs/contract.md has the rows of the list, and no others.
func TestTableIsUpToDate(t *testing.T) {
	list, err := readList("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if !strings.Contains(string(text), "\n"+list[i].head()+" `Test") {
			t.Errorf("docs/contract.md lacks %s", list[i].head())
		}
	}
	if n := strings.Count(string(text), "\n| ") - 1; n != len(list) { // but for the table's head
		t.Errorf("docs/contract.md has %d rows, the list %d", n, len(list))
	}
}
