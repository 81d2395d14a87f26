// Command manifests checks the manifests in deploy/ with the libraries of the tools that read them, and
// prints the containers in them, as JSON, for proof/manifests to run:
//
//	manifests DEPLOY
//
// A Dockerfile is parsed and linted by BuildKit's front end, a compose file loaded by Compose's own loader,
// and a Kubernetes manifest decoded strictly into the API's types; each pod must pass the Pod Security
// Standard "restricted". Every finding is an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// container is what an orchestrator starts, probes and stops.
type container struct {
	Name    string            `json:"name"`
	Sidecar bool              `json:"sidecar"` // it starts before the others and ends after them
	Command []string          `json:"command"` // in place of the image's entrypoint; may be nil
	Args    []string          `json:"args"`    // in place of the image's command; may be nil
	Env     map[string]string `json:"env"`
	// Files are those that the orchestrator mounts, by their path: with their content, or the name of the
	// secret that is mounted there.
	Files   map[string]file  `json:"files"`
	Volumes []string         `json:"volumes"` // where the writable ones are mounted
	Probes  map[string]probe `json:"probes"`  // startup, readiness, liveness; healthcheck of compose
	User    string           `json:"user"`    // and its group; "" is the image's
	Grace   float64          `json:"grace"`   // seconds from SIGTERM to SIGKILL
	Memory  int64            `json:"memory"`
	After   []string         `json:"after"` // containers that are healthy before this one starts
	ReadOnly,
	NoNewPrivileges,
	NoCapabilities bool
}

type file struct {
	Content string `json:"content"`
	Secret  string `json:"secret"`
	Mode    int32  `json:"mode"` // 0 if the orchestrator leaves it as it is
}

// probe is a command, and how the orchestrator judges by it. Times are in seconds.
type probe struct {
	Command  []string `json:"command"`
	Delay    float64  `json:"delay"`
	Period   float64  `json:"period"`
	Timeout  float64  `json:"timeout"`
	Failures int      `json:"failures"`
}

// image is what a Dockerfile says of the container to be.
type image struct {
	Entrypoint []string          `json:"entrypoint"`
	Command    []string          `json:"command"`
	Env        map[string]string `json:"env"`
	Volumes    []string          `json:"volumes"`
	User       string            `json:"user"`
	StopSignal string            `json:"stop_signal"`
	Health     probe             `json:"health"`
}

// manifests are all there are: files by their path in the directory.
type manifests struct {
	Images map[string]image       `json:"images"`
	Files  map[string][]container `json:"files"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests DEPLOY")
		os.Exit(2)
	}
	found, err := check(context.Background(), os.Args[1])
	if err == nil {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check returns the manifests of a directory, or everything that is wrong with them.
func check(ctx context.Context, dir string) (*manifests, error) {
	all := &manifests{Images: make(map[string]image), Files: make(map[string][]container)}
	var errs []error
	note := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	files := os.DirFS(dir)
	each := func(pattern string, read func(name string, text []byte) error) {
		names, err := fs.Glob(files, pattern)
		note(pattern, err)
		if len(names) == 0 {
			note(pattern, errors.New("there is no such file"))
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err == nil {
				err = read(name, text)
			}
			note(name, err)
		}
	}
	for _, pattern := range []string{"Dockerfile", "*/Dockerfile"} {
		each(pattern, func(name string, text []byte) (err error) {
			all.Images[name], err = dockerfile(text)
			return err
		})
	}
	each("compose*.yaml", func(name string, text []byte) (err error) {
		all.Files[name], err = compose(ctx, dir, name, text)
		return err
	})
	each("kubernetes/*.yaml", func(name string, text []byte) (err error) {
		all.Files[name], err = kubernetes(text)
		return err
	})
	return all, errors.Join(errs...)
}

// expanded replaces $(NAME) as Kubernetes does, by variables that come before.
func expanded(text string, env map[string]string) string {
	for name, value := range env {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}
