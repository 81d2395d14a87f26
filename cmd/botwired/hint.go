package main

import (
	"net"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
)

// sayHow ends the lines that serve shows on a terminal at its start with the one to copy into the
// terminal of the agents. A log that a program reads has no such line.
func sayHow(p *cli.Program, c *config.Config, address net.Addr, token string) {
	line := attach.ExportLine(c, address.String(), token)
	if line == "" || !p.IsTerminal(p.Stderr) {
		return
	}
	for _, each := range []string{"In the terminal of your agents:\n", line + "\n"} {
		_, _ = p.Log.Write([]byte(each)) // which never fails
	}
}
