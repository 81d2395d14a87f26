package main

import (
	"io"
	"strings"

	"github.com/botwired/botwired/proof/marked"
)

// hasPlace fails if a page lacks the part that is to be written when the work is done. The name of a page may
// be empty, here and in writeBetween: nothing is written then.
func hasPlace(page, name string) error {
	if page == "" {
		return nil
	}
	_, err := marked.Read(page, name)
	return err
}

// writeBetween replaces the part of a page that has a name by what print writes.
func writeBetween(page, name string, print func(io.Writer) error) error {
	if page == "" {
		return nil
	}
	var text strings.Builder
	if err := print(&text); err != nil {
		return err
	}
	return marked.Write(page, name, text.String())
}
