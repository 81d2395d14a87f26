package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile parses and lints a Dockerfile, and returns what its last stage says of the container.
func dockerfile(text []byte) (image, error) {
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return image{}, err
	}
	var errs []error
	for _, w := range parsed.Warnings {
		errs = append(errs, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, location []parser.Range) {
			errs = append(errs, fmt.Errorf("line %d: %s: %s", location[0].Start.Line, rule, message))
		},
	})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return image{}, err
	}
	out := image{Env: make(map[string]string)}
	for _, command := range stages[len(stages)-1].Commands {
		switch c := command.(type) {
		case *instructions.EntrypointCommand:
			out.Entrypoint = c.CmdLine
		case *instructions.CmdCommand:
			out.Command = c.CmdLine
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				out.Env[pair.Key] = pair.Value
			}
		case *instructions.VolumeCommand:
			out.Volumes = append(out.Volumes, c.Volumes...)
		case *instructions.UserCommand:
			out.User = c.User
		case *instructions.StopSignalCommand:
			out.StopSignal = c.Signal
		case *instructions.HealthCheckCommand:
			out.Health = probe{
				Command: c.Health.Test[1:], Delay: c.Health.StartPeriod.Seconds(), Period: c.Health.Interval.Seconds(),
				Timeout: c.Health.Timeout.Seconds(), Failures: c.Health.Retries,
			}
			if c.Health.Test[0] != "CMD" {
				errs = append(errs, errors.New("HEALTHCHECK wants a shell, and the image has none"))
			}
		}
	}
	if name, _, _ := strings.Cut(out.User, ":"); name == "" || name == "root" || name == "0" {
		errs = append(errs, errors.New("the container runs as root"))
	}
	return out, errors.Join(errs...)
}
