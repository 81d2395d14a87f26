package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// home returns an environment with an empty home directory.
func home(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"HOME=" + t.TempDir(), "USERPROFILE=" + t.TempDir(), "LocalAppData=" + t.TempDir()}, more...)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, src config.Sources) *config.Loaded {
	t.Helper()
	if src.Environ == nil {
		src.Environ = home(t)
	}
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return loaded
}

func loadYAML(t *testing.T, content string) *config.Loaded {
	t.Helper()
	return load(t, config.Sources{File: write(t, "config.yaml", content)})
}

// refused returns the error of Load, and checks that it is one line.
func refused(t *testing.T, src config.Sources) string {
	t.Helper()
	if src.Environ == nil {
		src.Environ = home(t)
	}
	loaded, err := config.Load(src)
	if err == nil {
		t.Fatalf("Load accepted it: %+v", loaded.Config)
	}
	if fault := new(config.Error); !errors.As(err, &fault) {
		t.Errorf("error is %T, want *config.Error", err)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("error is not one line: %q", err)
	}
	return err.Error()
}

func wantAll(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("error %q does not contain %q", message, part)
		}
	}
}

func value(l *config.Loaded, name string) string {
	for _, v := range l.Values {
		if v.Name == name {
			return v.Value
		}
	}
	return "no such setting"
}
