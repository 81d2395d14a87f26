package main

import (
	"strings"
	"testing"
)

// A run that measures nothing fails, and does not pass for one without a fault.
func TestSomethingIsMeasured(t *testing.T) {
	o := &options{page: thePage, dir: t.TempDir(), only: "put", runs: 1}
	if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), `no kind of requests has "put"`) {
		t.Errorf("error %v", err)
	}
}
