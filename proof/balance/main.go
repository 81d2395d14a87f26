package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
)

func main() {
	root := flag.String("root", ".", "the root of the tree")
	flag.Parse()
	if err := run(os.Stdout, *root); err != nil {
		fmt.Fprintln(os.Stderr, "balance:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	packages, err := readPackages(root)
	if err != nil {
		return err
	}
	lines := 0
	for _, p := range packages {
		lines += p.lines
	}
	size, err := programSize(root)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row(t, "", "here", "budget")
	row(t, "lines of Go in the product", grouped(lines), "56,000")
	for _, c := range counts {
		n, err := c.count(root)
		if err != nil {
			return err
		}
		row(t, c.what, grouped(n), c.budget)
	}
	row(t, "MB of the program, stripped", fmt.Sprintf("%.1f", float64(size)/1e6), "32")
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printPackages(w, packages)
}

func printPackages(w io.Writer, packages []*pkg) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row(t, "package", "lines", "files", "exported", "uses among files", "back up", "share")
	all := new(pkg)
	for _, p := range packages {
		p.print(t, p.folder)
		all.lines += p.lines
		all.files += p.files
		all.exported += p.exported
		all.uses += p.uses
		all.back += p.back
	}
	all.print(t, "all")
	return t.Flush()
}

func (p *pkg) print(t io.Writer, name string) {
	share := "-"
	if p.uses > 0 {
		share = fmt.Sprintf("%.1f %%", 100*float64(p.back)/float64(p.uses))
	}
	row(t, name, grouped(p.lines), grouped(p.files), grouped(p.exported), grouped(p.uses), grouped(p.back), share)
}

func row(t io.Writer, cells ...string) {
	for _, c := range cells {
		fmt.Fprint(t, c, "\t")
	}
	fmt.Fprintln(t)
}

// grouped is a number as people write it: 56,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
