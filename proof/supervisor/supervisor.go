// Package supervisor ends daemons as systemd and containers do.
package supervisor

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/child"
)

// Stop asks the daemon to end, as a supervisor does, and waits for its end. It fails if the daemon ends with
// another code than 0, or not within limit: then Stop kills it.
func Stop(p *child.Process, limit time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, p.Alive())
	}
	select {
	case <-p.Exited():
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("the daemon has not stopped %s after SIGTERM:\n%s", limit, p.Tail()), p.Kill())
	}
	if code := p.Code(); code != 0 {
		return fmt.Errorf("after SIGTERM, the daemon ended with %d:\n%s", code, p.Tail())
	}
	return nil
}
