package main

import (
	"strings"
	"testing"
)

// A run that measures nothing finds nothing that costs too much: it must not pass for one that has looked.
func TestNothingToMeasure(t *testing.T) {
	for _, o := range []options{{runs: 0}, {runs: 1, only: "no such kind"}} {
		o.page = "../../docs/performance.md"
		if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to measure") {
			t.Errorf("%+v: error %v", o, err)
		}
	}
}

// Bounds need all counts.
func TestUpdatingNeedsTheSystemCalls(t *testing.T) {
	o := &options{page: "../../docs/performance.md", runs: 1, update: true, objects: true}
	if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), "-objects") {
		t.Errorf("error %v", err)
	}
}
