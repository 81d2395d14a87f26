package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// described is what git describe says of a commit: its tag, the tag before it, or the commit alone.
var described = regexp.MustCompile(
	`^(?:v((?:0|[1-9]\d*)\.(?:0|[1-9]\d*))\.(0|[1-9]\d*)` + // v1.2, .3
		`(?:-(alpha|beta|rc)\.(0|[1-9]\d*))?` + // -rc.1
		`(?:-(\d+)-g([0-9a-f]+))?` + // -5-g0123456789ab
		`|([0-9a-f]+))(-dirty)?$`)

// versions are the names of one version in the packages.
type versions struct {
	python string // PEP 440
	npm    string // Semantic Versioning 2.0.0
}

// packageVersions translates a version for the packages. A commit after a release becomes a
// development version: pip and npm order it between that release and the next one, and install it
// only for users who ask for it.
func packageVersions(version string) (versions, error) {
	m := described.FindStringSubmatch(version)
	if m == nil {
		return versions{}, fmt.Errorf("version %q: the packages take a tag such as v1.2.3 or v1.2.3-rc.1 (or alpha, beta), "+
			"and what git describe adds to it", version)
	}
	minor, stage, since, commit := m[1], m[3], m[5], cmp.Or(m[6], m[7])
	var marks []string
	if commit != "" {
		marks = append(marks, "g"+commit)
	}
	if m[8] != "" {
		since, marks = cmp.Or(since, "0"), append(marks, "dirty")
	}
	build := strings.Join(marks, ".")
	if m[7] != "" { // no tag at all
		return versions{"0.0.0.dev0+" + build, "0.0.0-dev.0." + build}, nil
	}

	patch, err := strconv.Atoi(m[2])
	number, err2 := strconv.Atoi(cmp.Or(m[4], "0"))
	if err := errors.Join(err, err2); err != nil {
		return versions{}, fmt.Errorf("version %q: %w", version, err)
	}
	letters := map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[stage]
	switch {
	case stage == "" && since == "":
		release := fmt.Sprintf("%s.%d", minor, patch)
		return versions{release, release}, nil
	case since == "":
		return versions{fmt.Sprintf("%s.%d%s%d", minor, patch, letters, number), fmt.Sprintf("%s.%d-%s.%d", minor, patch, stage, number)}, nil
	case stage == "":
		return versions{
			fmt.Sprintf("%s.%d.dev%s+%s", minor, patch+1, since, build), fmt.Sprintf("%s.%d-dev.%s.%s", minor, patch+1, since, build),
		}, nil
	}
	return versions{
		fmt.Sprintf("%s.%d%s%d.dev%s+%s", minor, patch, letters, number+1, since, build),
		fmt.Sprintf("%s.%d-%s.%d.dev.%s.%s", minor, patch, stage, number, since, build),
	}, nil
}
