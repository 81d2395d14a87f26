package flush_test

import (
	"fmt"
	"testing"
	"time"
)

func TestKeepAliveConnectionClosedByUpstream(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 20 {
			r.put(key(fmt.Sprint(i)), "v")
			time.Sleep(time.Second + time.Duration(i%2)*(5*time.Second))
			r.wantHeld(key(fmt.Sprint(i)), "v")
		}
		if n := len(r.requests(anything)); n != 20 {
			t.Errorf("%d requests for 20 writes", n)
		}
	})
}
