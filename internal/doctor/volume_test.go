//go:build linux || darwin

package doctor_test

import (
	"path/filepath"
	"testing"

	"github.com/botwired/botwired/internal/doctor"
)

func TestLook(t *testing.T) {
	dir := t.TempDir()
	if v, err := doctor.Look(dir); err != nil || v.Type == "" || v.Kind == "" || v.Free == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := doctor.Look(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there has a file system")
	}
}
