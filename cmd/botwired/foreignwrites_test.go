package main

import (
	"strings"
	"testing"
)

func TestStatusOfForeignWrites(t *testing.T) {
	body := `{"version":"1","pending":0,"namespaces":[{"namespace":"mine","pending":0,` +
		`"foreign_writes":{"found":3,"last_found_at":"2026-11-22T00:00:00Z","last_key":"k"}}]}`
	got := at(t, newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}}), nil, "status")
	want := "mine is set exclusive, and somebody else writes to it: 3 writes found, the last one of k at 2026-11-22T00:00:00Z"
	if got.code != exitOK || !strings.Contains(got.stdout, want) {
		t.Errorf("%+v\nlacks %q", got, want)
	}
}
