package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/internal/cli"
)

// manualPages is the directory for a package's manual pages. It is a test flag, so that the program
// need not contain the code that writes them.
var manualPages = flag.String("man", "", "write the manual pages into this directory")

// Every command has a manual page with its help and all its settings. The pages are made on one machine
// and read on others, so they must name nothing of that machine.
func TestManualPages(t *testing.T) {
	dir := *manualPages
	if dir == "" {
		dir = t.TempDir()
	}
	no(t, os.MkdirAll(dir, 0o755))
	root := newTree()
	root.DisableAutoGenTag = true
	root.Long += "\n\n" + cli.ExitCodesTopic()
	var want []string
	cli.EachCommand(root, func(cmd *cobra.Command) {
		if !cli.IsShown(cmd) && cmd.HasParent() || cmd.Name() == "help" {
			return
		}
		want = append(want, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		_, settings := cli.FlagsOf(cmd, cmd.HasParent())
		settings.VisitAll(func(f *pflag.Flag) {
			f = cmd.Flags().Lookup(f.Name)
			f.Hidden = false
			if f.Name == "data-dir" && cmd.Name() != "selfhost" {
				f.DefValue = `~/.local/state/botwired; on macOS ~/Library/Application Support/botwired, on Windows %LocalAppData%\botwired`
			}
		})
	})
	no(t, doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{
		Path: dir, CommandSeparator: "-", Header: &doc.GenManHeader{Section: "1", Source: "botwired", Manual: "botwired"},
	}))
	files, err := os.ReadDir(dir)
	no(t, err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), names); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	page, err := os.ReadFile(filepath.Join(dir, "botwired-serve.1"))
	no(t, err)
	for _, want := range []string{"SYNOPSIS", "log-level", "Library/Application Support/botwired", "EXAMPLE"} {
		if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), want) {
			t.Errorf("the page of serve lacks %s", want)
		}
	}
}
