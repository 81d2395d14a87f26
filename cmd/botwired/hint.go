package main

import (
	"net"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
)

// sayHow prints what a user needs once serve is ready. It prints nothing if stderr is not a terminal.
func sayHow(p *cli.Program, c *config.Config, address net.Addr, token string, up api.UpstreamState) {
	if !p.IsTerminal(p.Stderr) {
		return
	}
	state := up.State
	if up.LastSuccessAt == nil && up.Reason == "" {
		state = "not asked yet"
	}
	lines := []string{"botwired is ready."}
	if export := attach.ExportLine(c, address.String(), token); export != "" {
		lines = append(lines, "  Agents:    "+export, "  Page:      http://"+api.Host(address.String()))
	}
	for _, each := range append(lines, "  Upstream:  "+c.Upstream.URL+" ("+state+")", "  To stop:   Ctrl-C; botwired first sends what waits") {
		_, _ = p.Log.Write([]byte(each + "\n")) // never fails
	}
}
