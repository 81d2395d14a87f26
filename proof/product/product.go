// Package product finds the product's Go files in a tree.
package product

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// others are folders of the root whose Go is not the product's.
var others = []string{"bin", "clients", "examples", "proof", "tools"}

// EachFile calls visit with the slash-separated name, from the root, and the text of each Go file of
// the product, without tests. It stops at the first error.
func EachFile(root string, visit func(name string, text []byte) error) error {
	tree := os.DirFS(root)
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := name != "." && strings.HasPrefix(d.Name(), ".")
			if hidden || slices.Contains(others, name) || d.Name() == "testdata" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return visit(name, text)
	})
}
