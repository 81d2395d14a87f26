package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlatforms(t *testing.T) {
	all, err := parsePlatforms("linux/amd64, windows/arm64")
	if err != nil || len(all) != 2 || all[1] != (platform{"windows", "arm64"}) {
		t.Errorf("%v, %v", all, err)
	}
	for _, wrong := range []string{"", " ", "linux", "linux/", "/amd64"} {
		if _, err := parsePlatforms(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
