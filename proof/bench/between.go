package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
)

// writeBetween replaces what a page has between the lines "<!-- mark -->" and "<!-- /mark -->" by what
// print writes.
func writeBetween(page, mark string, print func(io.Writer) error) error {
	begin, end := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->\n"
	content, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begun := bytes.Cut(content, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !begun || !ended {
		return fmt.Errorf("%s has no lines %q and %q to write the table between", page, begin, end)
	}
	var table bytes.Buffer
	if err := print(&table); err != nil {
		return err
	}
	// The page's lines are at most 120 characters long, but for those of tables.
	return os.WriteFile(page, slices.Concat(before, []byte(begin), wrapped(table.Bytes()), []byte(end), after), 0o644)
}
