package main

import (
	"io"
	"strings"

	"github.com/botwired/botwired/proof/marked"
)

// writeBetween replaces the part of a page that has a name by what print writes.
func writeBetween(page, name string, print func(io.Writer) error) error {
	var text strings.Builder
	if err := print(&text); err != nil {
		return err
	}
	return marked.Write(page, name, text.String())
}
