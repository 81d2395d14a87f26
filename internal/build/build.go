// Package build identifies the program: its version, and what it was built from.
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
	Revision string `json:"revision"` // the commit; "" if unknown
	Date     string `json:"date"`     // the commit's, in RFC 3339; "" if unknown
	Modified bool   `json:"modified"` // built with uncommitted changes
}

// This returns the information that the linker recorded.
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

// String returns one line for people.
func (b Info) String() string {
	return fmt.Sprintf("botwired %s %s %s revision %s", b.Version, b.Go, b.Platform, b.commit())
}

// commit returns the commit, and says if the program was modified.
func (b Info) commit() string {
	if b.Modified {
		return b.Revision + ", modified"
	}
	return cmp.Or(b.Revision, "unknown")
}

// Write prints all of it for people.
func (b Info) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "botwired %s\ncommit   %s\ndate     %s\nGo       %s\nplatform %s\n",
		b.Version, b.commit(), cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
	return err
}

// Version returns the version that the daemon reports.
func Version() string { return This().Version }
