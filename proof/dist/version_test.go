package main

import "testing"

// The packages' versions are valid ones, which pip and npm order as the commits are.
func TestVersionsOfThePackages(t *testing.T) {
	for _, c := range []struct{ git, python, npm string }{
		{"v0.2.0", "0.2.0", "0.2.0"},
		{"v10.0.12", "10.0.12", "10.0.12"},
		{"v0.2.0-rc.1", "0.2.0rc1", "0.2.0-rc.1"},
		{"v0.2.0-alpha.3", "0.2.0a3", "0.2.0-alpha.3"},
		{"v0.2.0-beta.0", "0.2.0b0", "0.2.0-beta.0"},
		{"v0.2.0-5-gabcdef012345", "0.2.1.dev5+gabcdef012345", "0.2.1-dev.5.gabcdef012345"},
		{"v0.2.0-dirty", "0.2.1.dev0+dirty", "0.2.1-dev.0.dirty"},
		{"v0.2.0-5-gabcdef012345-dirty", "0.2.1.dev5+gabcdef012345.dirty", "0.2.1-dev.5.gabcdef012345.dirty"},
		{"v0.2.0-rc.1-5-gabcdef012345", "0.2.0rc2.dev5+gabcdef012345", "0.2.0-rc.1.dev.5.gabcdef012345"},
		{"012345678901", "0.0.0.dev0+g012345678901", "0.0.0-dev.0.g012345678901"},
		{"abcdef012345-dirty", "0.0.0.dev0+gabcdef012345.dirty", "0.0.0-dev.0.gabcdef012345.dirty"},
	} {
		if got, err := packageVersions(c.git); err != nil || got != (versions{c.python, c.npm}) {
			t.Errorf("%s: %+v, %v", c.git, got, err)
		}
	}
	for _, wrong := range []string{"", "nightly", "v1.2", "v01.2.3", "1.2.3", "v1.2.3-rc1", "v1.2.3+build", "v1.2.99999999999999999999"} {
		if got, err := packageVersions(wrong); err == nil {
			t.Errorf("%q becomes %+v", wrong, got)
		}
	}
}
