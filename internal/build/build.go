// Package build says which program this is: its version, and what it was built from.
package build

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the linker: see the Makefile.
var version string

// Info identifies the program.
type Info struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision"` // the commit; "" if it was not built from a repository
	Date     string `json:"date"`     // the commit's, by RFC 3339; "" likewise
	Modified bool   `json:"modified"` // built with uncommitted changes
}

// This reads what the linker recorded.
func This() Info {
	b := Info{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	switch {
	case version != "":
		b.Version = version
	case ok && info.Main.Version != "":
		b.Version = info.Main.Version
	}
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is one line for a person.
func (b Info) String() string {
	return fmt.Sprintf("botwired %s %s %s revision %s", b.Version, b.Go, b.Platform, b.commit())
}

// commit is the commit, and whether the program is that.
func (b Info) commit() string {
	if b.Modified {
		return b.Revision + ", modified"
	}
	return cmp.Or(b.Revision, "unknown")
}

// Write writes all that the program knows of itself, for a person.
func (b Info) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "botwired %s\ncommit   %s\ndate     %s\nGo       %s\nplatform %s\n",
		b.Version, b.commit(), cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
	return err
}

// Version is the version that the daemon gives as its own.
func Version() string { return This().Version }
