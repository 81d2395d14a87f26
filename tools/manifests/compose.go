package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose loads a compose file as Compose does, with the check against its schema.
func compose(ctx context.Context, dir, name string, text []byte) ([]container, error) {
	project, err := loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, name), Content: text}},
		Environment: map[string]string{},
	})
	if err != nil {
		return nil, err
	}
	var all []container
	var errs []error
	for _, name := range project.ServiceNames() {
		c, err := service(project, project.Services[name])
		all = append(all, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", name, err))
		}
	}
	return all, errors.Join(errs...)
}

func service(project *types.Project, s types.ServiceConfig) (container, error) {
	c := container{
		Name: s.Name, Command: s.Entrypoint, Args: s.Command, User: s.User, Memory: int64(s.MemLimit),
		Env: make(map[string]string), Files: make(map[string]file), Probes: make(map[string]probe),
		ReadOnly: s.ReadOnly, NoCapabilities: slices.Contains(s.CapDrop, "ALL"),
		NoNewPrivileges: slices.Contains(s.SecurityOpt, "no-new-privileges:true"),
	}
	for name, value := range s.Environment {
		if value != nil {
			c.Env[name] = *value
		}
	}
	for _, v := range s.Volumes {
		c.Volumes = append(c.Volumes, v.Target)
	}
	for _, secret := range s.Secrets {
		target := secret.Target
		if !filepath.IsAbs(target) {
			if target == "" {
				target = secret.Source
			}
			target = "/run/secrets/" + target
		}
		c.Files[target] = file{Secret: secret.Source}
	}
	for name, d := range s.DependsOn {
		if d.Condition == types.ServiceConditionHealthy {
			c.After = append(c.After, name)
		}
	}
	if s.StopGracePeriod != nil {
		c.Grace = time.Duration(*s.StopGracePeriod).Seconds()
	}
	if h := s.HealthCheck; h != nil {
		if len(h.Test) < 2 || h.Test[0] != "CMD" || h.Retries == nil {
			return c, errors.New("its healthcheck wants retries, and a test that begins with CMD: the image has no shell")
		}
		p := probe{Command: h.Test[1:], Delay: seconds(h.StartPeriod), Period: seconds(h.Interval), Timeout: seconds(h.Timeout), Failures: int(*h.Retries)}
		if h.StartInterval != nil {
			p.Period = seconds(h.StartInterval)
		}
		c.Probes["healthcheck"] = p
	}
	return c, restrictedService(project, s, c)
}

// restrictedService asks of a service what "restricted" asks of a pod.
func restrictedService(project *types.Project, s types.ServiceConfig, c container) error {
	var errs []error
	for _, needed := range []struct {
		given bool
		what  string
	}{
		{c.ReadOnly, "read_only"}, {c.NoCapabilities, "cap_drop: [ALL]"}, {c.NoNewPrivileges, "no-new-privileges"},
		{c.Memory > 0, "mem_limit"}, {c.Grace > 0, "stop_grace_period"}, {!s.Privileged, "no privileged"},
	} {
		if !needed.given {
			errs = append(errs, fmt.Errorf("%s is missing", needed.what))
		}
	}
	for _, secret := range s.Secrets {
		if c.ReadOnly && project.Secrets[secret.Source].File == "" {
			errs = append(errs, fmt.Errorf("secret %s is no file, and Compose mounts only files into a read-only container", secret.Source))
		}
	}
	return errors.Join(errs...)
}

func seconds(d *types.Duration) float64 {
	if d == nil {
		return 0
	}
	return time.Duration(*d).Seconds()
}
