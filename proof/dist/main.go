// Command dist packs the releases of botwired, and checks them.
//
// "dist pack" builds the program for each platform and writes into bin/dist: an archive per
// platform, its SBOM in CycloneDX's JSON, and SHA256SUMS over both. An archive holds the program, the
// documents, the examples, the manual pages, the completions, the files of deploy/, and the licences
// of all that is linked into the program.
//
// The bytes depend on the commit and on the release of Go, and on nothing else: not on the folder,
// the clock, the user, the umask or the caches. The times in an archive are the commit's, or
// SOURCE_DATE_EPOCH's. "dist check" proves it: it packs two clean clones in two environments,
// compares them, and then uses an archive as a person would who has just downloaded it.
//
// It is a program of proof/ because the product needs nothing of it, and because its second half is
// a test. It uses the standard library, git and go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// defaultPlatforms are what a release has archives for.
const defaultPlatforms = "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say pack or check")
	}
	flags := flag.NewFlagSet("dist "+args[0], flag.ExitOnError)
	names := flags.String("platforms", defaultPlatforms, "the platforms, such as \"linux/amd64 darwin/arm64\"")
	into := flags.String("into", "bin/dist", "pack: the folder of the archives, which pack empties")
	var tools checkTools
	flags.StringVar(&tools.bomCheck, "bomcheck", "bin/tools/bomcheck", "check: the program that compares an SBOM with CycloneDX's schema")
	flags.StringVar(&tools.python, "python", "bin/packaging", "check: a virtual environment with uv, twine and check-wheel-contents")
	flags.StringVar(&tools.house, "wheelhouse", "bin/wheelhouse", "check: a folder with the wheels that the Python package needs")
	cold := flags.Bool("cold", false, "check: give the second build an empty build cache, which takes minutes")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	platforms, err := parsePlatforms(*names)
	if err != nil {
		return err
	}
	switch args[0] {
	case "pack":
		return pack(ctx, platforms, *into)
	case "check":
		return check(ctx, platforms, tools, *cold)
	}
	return fmt.Errorf("%q is neither pack nor check", args[0])
}

// platform is a pair of GOOS and GOARCH.
type platform struct{ os, arch string }

// here is this machine's platform.
var here = platform{runtime.GOOS, runtime.GOARCH}

func (p platform) String() string { return p.os + "/" + p.arch }

// program is the program's file name.
func (p platform) program() string {
	if p.os == "windows" {
		return "botwired.exe"
	}
	return "botwired"
}

// parsePlatforms reads names that blanks or commas separate.
func parsePlatforms(names string) ([]platform, error) {
	var all []platform
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' }) {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("platform %q: expected GOOS/GOARCH, such as linux/arm64", name)
		}
		all = append(all, platform{system, arch})
	}
	if len(all) == 0 {
		return nil, errors.New("no platform is named")
	}
	return all, nil
}
