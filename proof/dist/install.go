package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/botwired/botwired/proof/loopback"
)

// installer installs the packages of a release where there is no Go and no network, and uses them as
// somebody would who has just heard of botwired.
type installer struct {
	src      source
	dir      string // of the release
	python   string // the folder of the tools' virtual environment
	house    string // the wheels that the Python package needs
	agents   string // the folder of agent.py and agent.mjs
	home     string // an empty folder
	versions versions
}

// usePackages tries the packages of this machine's platform, and which wheel pip and uv choose for each.
func usePackages(ctx context.Context, src source, platforms []platform, dir, work string, tools checkTools) error {
	names, err := packageVersions(src.version)
	if err != nil {
		return err
	}
	i := installer{src: src, dir: dir, home: filepath.Join(work, "packages"), versions: names}
	for at, path := range map[*string]string{&i.python: tools.python, &i.house: tools.house, &i.agents: "proof/dist"} {
		if *at, err = filepath.Abs(path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(i.home, 0o700); err != nil {
		return err
	}
	if err := i.metadataIsRight(ctx); err != nil {
		return err
	}
	for _, p := range platforms {
		if err := i.choose(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if p != here || wheelTags[p] == nil {
			continue
		}
		for _, use := range []func(context.Context) error{i.pip, i.uvx, i.npx} {
			if err := use(ctx); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	return nil
}

func (i installer) tool(name string) string { return filepath.Join(i.python, "bin", name) }

// metadataIsRight asks the tools that check what is uploaded to PyPI.
func (i installer) metadataIsRight(ctx context.Context) error {
	wheels, err := filepath.Glob(filepath.Join(i.dir, "*.whl"))
	if err != nil {
		return err
	}
	for _, command := range [][]string{{i.tool("twine"), "check", "--strict"}, {i.tool("check-wheel-contents")}} {
		if _, err := i.do(ctx, append(command, wheels...)...); err != nil {
			return err
		}
	}
	fmt.Printf("twine and check-wheel-contents find nothing in %d wheels\n", len(wheels))
	return nil
}

// uvPlatforms are the platforms of the wheels, as uv calls them.
var uvPlatforms = map[platform][]string{
	{"linux", "amd64"}:   {"x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"},
	{"linux", "arm64"}:   {"aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl"},
	{"darwin", "amd64"}:  {"x86_64-apple-darwin"},
	{"darwin", "arm64"}:  {"aarch64-apple-darwin"},
	{"windows", "amd64"}: {"x86_64-pc-windows-msvc"},
	{"windows", "arm64"}: {"aarch64-pc-windows-msvc"},
}

// choose has pip and uv look for the wheel of a platform among all of them.
func (i installer) choose(ctx context.Context, p platform) error {
	if wheelTags[p] == nil {
		return nil
	}
	want := wheels{project: project{Name: "botwired"}, version: i.versions.python}.file(p)
	find := []string{"--no-deps", "--no-index", "--find-links", i.dir, "--only-binary=:all:"}
	for _, tag := range wheelTags[p] {
		into := filepath.Join(i.home, "chosen", tag)
		command := append([]string{i.tool("python"), "-m", "pip", "download", "--quiet", "--platform", tag, "--dest", into}, find...)
		if err := i.chosen(ctx, into, want, append(command, i.requirement())...); err != nil {
			return fmt.Errorf("pip, for %s: %w", tag, err)
		}
	}
	for _, name := range uvPlatforms[p] {
		into := filepath.Join(i.home, "chosen", name)
		command := append([]string{
			i.tool("uv"), "pip", "install", "--quiet", "--python", i.tool("python"), "--python-platform", name, "--target", into,
		}, find...)
		if _, err := i.do(ctx, append(command, i.requirement())...); err != nil {
			return fmt.Errorf("uv, for %s: %w", name, err)
		}
		installed, err := filepath.Glob(filepath.Join(into, "*", p.program()))
		if err != nil || len(installed) != 1 {
			return fmt.Errorf("uv, for %s: it has installed the programs %q, %w", name, installed, err)
		}
		program, err := os.ReadFile(installed[0])
		if err != nil {
			return err
		}
		if err := isFor(p, program); err != nil {
			return fmt.Errorf("uv, for %s: %w", name, err)
		}
	}
	fmt.Printf("%-16s pip and uv choose its wheel: %s\n", p, strings.Join(append(wheelTags[p], uvPlatforms[p]...), ", "))
	return nil
}

// chosen runs a command that downloads one file into a folder, and compares its name.
func (i installer) chosen(ctx context.Context, into, want string, command ...string) error {
	if _, err := i.do(ctx, command...); err != nil {
		return err
	}
	names, err := fileNames(into)
	if err == nil && (len(names) != 1 || names[0] != want) {
		err = fmt.Errorf("it has chosen %q, and not %s", names, want)
	}
	return err
}

func (i installer) requirement() string { return "botwired==" + i.versions.python }

// pip installs the wheel into a new virtual environment.
func (i installer) pip(ctx context.Context) error {
	return i.firstValue(ctx, "pip install", nil, func(ctx context.Context, u packageUser) error {
		venv := filepath.Join(u.home, "venv")
		if _, err := u.do(ctx, i.tool("python"), "-m", "venv", venv); err != nil {
			return err
		}
		bin := filepath.Join(venv, "bin")
		u.began = time.Now() // the environment was there before
		if _, err := u.do(ctx, filepath.Join(bin, "pip"), "install", "--quiet", "--no-index",
			"--find-links", i.house, "--find-links", i.dir, i.requirement()); err != nil {
			return err
		}
		u.path = bin + ":" + u.path
		if err := u.remembers(ctx, filepath.Join(bin, "botwired"), "run", "--", "python", filepath.Join(i.agents, "agent.py")); err != nil {
			return err
		}
		said, err := u.do(ctx, filepath.Join(bin, "python"), "-m", "botwired", "--version")
		if err == nil && !strings.Contains(said, i.src.version) {
			err = fmt.Errorf("python -m botwired --version has said %q", said)
		}
		return err
	})
}

// uvx needs nothing but the wheel.
func (i installer) uvx(ctx context.Context) error {
	wheel := filepath.Join(i.dir, wheels{project: project{Name: "botwired"}, version: i.versions.python}.file(here))
	return i.firstValue(ctx, "uvx", nil, func(ctx context.Context, u packageUser) error {
		return u.remembers(ctx, i.tool("uvx"), "--quiet", "--offline", "--no-index", "--find-links", i.house,
			"--python", i.tool("python"), "--from", wheel, "botwired", "run", "--", "python", filepath.Join(i.agents, "agent.py"))
	})
}

// npx takes the packages from a registry on loopback that has no others, and npm from the files.
func (i installer) npx(ctx context.Context) (err error) {
	from, err := startRegistry(ctx, i.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	names := npmPackages{version: i.versions.npm}
	environ := []string{"npm_config_registry=" + from.url, "npm_config_update_notifier=false", "npm_config_fund=false", "npm_config_audit=false"}
	return i.firstValue(ctx, "npx", environ, func(ctx context.Context, u packageUser) error {
		run := []string{"run", "--", "node", filepath.Join(i.agents, "agent.mjs")}
		if err := u.remembers(ctx, append([]string{"npx", "--yes", "botwired"}, run...)...); err != nil {
			return err
		}
		if _, err := u.do(ctx, "npm", "init", "--yes"); err != nil {
			return err
		}
		u.environ = append(u.environ, "npm_config_offline=true") // from here on, the files are all there is
		files := []string{filepath.Join(i.dir, names.file("botwired")), filepath.Join(i.dir, names.file(platformPackage(here)))}
		if _, err := u.do(ctx, append([]string{"npm", "install"}, files...)...); err != nil {
			return err
		}
		if err := u.readsBack(ctx, append([]string{"npx", "--no-install", "botwired"}, run...)...); err != nil {
			return err
		}
		said, err := u.do(ctx, "node", "-p", `require("child_process").execFileSync(require("botwired").binary(), ["--version"], {encoding: "utf8"})`)
		if err == nil && !strings.Contains(said, i.src.version) {
			err = fmt.Errorf("the program of binary() has said %q", said)
		}
		if err != nil {
			return err
		}
		_, err = u.do(ctx, "node", "--input-type=module", "-e", `import { Memory } from "botwired"; new Memory("demo")`)
		return err
	})
}

// do runs a tool with the environment of this process.
func (i installer) do(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = i.home
	return outputOf(cmd)
}

// packageUser is somebody with a home folder of their own, and a PATH with neither go nor git.
type packageUser struct {
	home, path string
	environ    []string
	began      time.Time
	way        string
}

// firstValue has a new user do something.
func (i installer) firstValue(ctx context.Context, way string, environ []string, use func(context.Context, packageUser) error) (err error) {
	u := packageUser{home: filepath.Join(i.home, strings.ReplaceAll(way, " ", "-")), way: way}
	restore, err := withoutGo(u.home, "sh", "env", "node", "npm", "npx")
	if err != nil {
		return fmt.Errorf("%s: %w", way, err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	address, err := loopback.FreeAddress(ctx)
	if err != nil {
		return err
	}
	u.path, u.began = os.Getenv("PATH"), time.Now()
	u.environ = append([]string{
		"HOME=" + u.home, "LC_ALL=C.UTF-8", "BOTWIRED_LISTEN=" + address, "BOTWIRED_UPSTREAM_URL=embedded",
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "UV_PYTHON_DOWNLOADS=never",
	}, environ...)
	if err := use(ctx, u); err != nil {
		return fmt.Errorf("%s: %w", way, err)
	}
	return nil
}

// remembers runs an agent twice: the first remembers a value, and the second, with a daemon of its
// own, reads it back.
func (u packageUser) remembers(ctx context.Context, command ...string) error {
	said, err := u.do(ctx, append(command, "remember")...)
	if err != nil {
		return err
	}
	took := time.Since(u.began)
	if said != "hello\n" {
		return fmt.Errorf("the agent has said %q", said)
	}
	fmt.Printf("%-16s from the files to the first remembered value: %s\n", u.way, took.Round(10*time.Millisecond))
	return u.readsBack(ctx, command...)
}

func (u packageUser) readsBack(ctx context.Context, command ...string) error {
	said, err := u.do(ctx, append(command, "read")...)
	if err == nil && said != "hello\n" {
		err = fmt.Errorf("a second agent has read %q", said)
	}
	return err
}

func (u packageUser) do(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = u.home, append([]string{"PATH=" + u.path}, u.environ...)
	return outputOf(cmd)
}
