package main

import (
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	o, err := parse([]string{"-hosts", "8", "-for", "10m"})
	if err != nil || o.hosts != 8 || o.lasts != 10*time.Minute || o.partition != 0 || o.up {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-hosts", "1"}, {"-callers", "0"}, {"-keys", "1001"}, {"-hot", "0"}, {"-hot", "251"}, {"-for", "soon"}, {"more"}} {
		if o, err := parse(args); err == nil {
			t.Errorf("%q: %+v", args, o)
		}
	}
}
