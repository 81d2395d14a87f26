package surface

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// However many User-Agents come, the latest are remembered.
func TestCallersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers()
		for i := range 3 * callersAtMost {
			c.Note([]byte(fmt.Sprint("agent ", i)), time.Now())
			time.Sleep(time.Second)
		}
		if all := c.list(); len(all) != callersAtMost || all[0].Agent != "agent 191" || all[len(all)-1].Agent != "agent 128" {
			t.Errorf("%d callers: %+v", len(all), all)
		}
	})
}
