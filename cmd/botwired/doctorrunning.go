package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/doctor"
)

// askLimit leaves the checks that go by the daemon's answer half of their time, if none comes.
const askLimit = checkLimit / 2

// examined returns the configuration that the checks go by: that of this shell, with the data
// directory and the upstream of the daemon if one answers.
func (e *examination) examined(ctx context.Context) (c *config.Config, answers bool) {
	s, err := e.ask(ctx)
	if err != nil {
		return &e.loaded.Config, false
	}
	return e.usedBy(s), true
}

// usedBy returns this shell's configuration with what a daemon uses in its place. Another
// upstream than this shell's gets none of this shell's headers and credentials: they are secrets.
func (e *examination) usedBy(s *examinedStatus) *config.Config {
	c := e.loaded.Config
	if s.DataDir != "" {
		c.DataDir = string(s.DataDir)
	}
	if theirs, ok := config.ParseIdentity(string(s.Upstream.URL)); ok && theirs != c.Upstream.Identity() {
		c.Upstream.URL, c.Upstream.Headers = theirs, nil
	}
	servers, err := config.ParseServers(string(s.Upstream.URL))
	if err != nil {
		return &c
	}
	if servers != c.Upstream.URL {
		c.Upstream.URL, c.Upstream.Headers = servers, nil // cluster leaves out what is in the context
	}
	c.Upstream.NATS.Bucket = s.Upstream.Watch.Bucket.or(c.Upstream.NATS.Bucket)
	return &c
}

// outOfReach says why this command cannot examine the directory of a daemon; "" if it can.
func outOfReach(dir string) string {
	switch err := canWrite(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "the daemon uses " + dir + ", which is not on this machine: the daemon runs in a container or elsewhere, or somebody has removed the directory"
	case errors.Is(err, fs.ErrPermission):
		return "the daemon uses " + dir + ", which this user may not: run doctor as the daemon's user"
	}
	return ""
}

// sameSettings compares the daemon with the configuration that this command reads. Flags of serve
// are a usual reason for a difference, and no fault. If a person has set another value in this
// shell or in the file, the daemon does not do what the person said.
func (e *examination) sameSettings(s *examinedStatus) doctor.Finding {
	const name = "settings"
	own, used := &e.loaded.Config, e.usedBy(s)
	var theirs, ours, exports []string
	isSet := false
	compare := func(setting, variable, here, there string) {
		if here == there {
			return
		}
		theirs, ours = append(theirs, setting+" = "+there), append(ours, here)
		exports = append(exports, variable+"="+shellWord(there))
		isSet = isSet || e.loaded.Source(setting).Layer != config.FromDefault
	}
	compare("upstream.url", "BOTWIRED_UPSTREAM_URL", own.Upstream.URL, used.Upstream.URL)
	if used.Upstream.Servers() != nil {
		compare("upstream.nats.bucket", "BOTWIRED_UPSTREAM_NATS_BUCKET", own.Upstream.NATS.Bucket, used.Upstream.NATS.Bucket)
	}
	compare("data_dir", "BOTWIRED_DATA_DIR", own.DataDir, used.DataDir)
	if len(exports) == 0 {
		return doctor.Good(name, "the daemon has the upstream and the data directory of this configuration")
	}
	note := doctor.Good(name, "the daemon has %s, and this command %s; doctor examines the daemon's",
		strings.Join(theirs, " and "), strings.Join(ours, " and "))
	note.Remedy = "export " + strings.Join(exports, " ")
	if isSet {
		note.Result = doctor.Warning
		note.Text += ". Restart the daemon, or have the same here with"
	} else {
		note.Text += ". If this shell is to have the same, set it with"
	}
	return note
}
