package main

import (
	"net"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
)

// sayHow prints the line to copy into the agents' terminal, after serve's first log lines. It prints
// nothing if stderr is not a terminal.
func sayHow(p *cli.Program, c *config.Config, address net.Addr, token string) {
	line := attach.ExportLine(c, address.String(), token)
	if line == "" || !p.IsTerminal(p.Stderr) {
		return
	}
	for _, each := range []string{"In the terminal of your agents:\n", line + "\n"} {
		_, _ = p.Log.Write([]byte(each)) // never fails
	}
}
