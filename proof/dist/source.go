package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// source is the commit that a release is made of.
type source struct {
	version string    // as the program reports it, such as v0.1.0
	date    time.Time // the commit's, or SOURCE_DATE_EPOCH's
}

// name is the name of a platform's archive, without its ending, and of the folder inside.
func (s source) name(p platform) string {
	return fmt.Sprintf("botwired_%s_%s_%s", strings.TrimPrefix(s.version, "v"), p.os, p.arch)
}

// readSource asks git. The version has twelve digits of the commit: a shorter abbreviation would
// depend on the number of objects in the clone.
func readSource(ctx context.Context) (source, error) {
	if _, err := output(ctx, "git", "ls-files", "--error-unmatch", "go.mod"); err != nil {
		return source{}, fmt.Errorf("a release is made of a clone of botwired, and of no unpacked archive of its source: %w", err)
	}
	version, err := output(ctx, "git", "describe", "--tags", "--always", "--dirty", "--abbrev=12")
	if err != nil {
		return source{}, err
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = output(ctx, "git", "show", "-s", "--format=%ct", "HEAD"); err != nil {
			return source{}, err
		}
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(epoch), 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("SOURCE_DATE_EPOCH: expected seconds since 1970: %w", err)
	}
	return source{strings.TrimSpace(version), time.Unix(seconds, 0).UTC()}, nil
}

// tracked returns the files that git has under some paths, as archive entries. The mode is git's,
// executable or not, and does not depend on the umask of the clone.
func tracked(ctx context.Context, paths ...string) ([]entry, error) {
	listed, err := output(ctx, "git", append([]string{"ls-files", "-z", "--stage", "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for line := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		about, name, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		var mode fs.FileMode
		switch gitMode, _, _ := strings.Cut(about, " "); gitMode {
		case "100644":
			mode = 0o644
		case "100755":
			mode = 0o755
		default:
			return nil, fmt.Errorf("%s: git has it with mode %s, and an archive takes plain files only", name, gitMode)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name, mode, content})
	}
	return entries, nil
}

// output runs a command and returns what it prints. Its error has what the command complained of.
func output(ctx context.Context, name string, args ...string) (string, error) {
	return outputOf(exec.CommandContext(ctx, name, args...))
}

func outputOf(cmd *exec.Cmd) (string, error) {
	var complaints bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &complaints
	} else {
		cmd.Stderr = io.MultiWriter(cmd.Stderr, &complaints)
	}
	printed, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return string(printed), err
}
