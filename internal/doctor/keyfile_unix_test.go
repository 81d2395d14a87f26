//go:build unix

package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/botwired/botwired/internal/seal"
)

func TestDoctorOfTheKeyFile(t *testing.T) {
	wantFinding(t, examine(t, newPatient(t, nil)), "key file", NotApplicable, "", "no namespace is sealed")
	file := filepath.Join(t.TempDir(), "keys")
	with := func() []Finding { return examine(t, newPatient(t, map[string]string{"seal.key_file": file})) }
	wantFinding(t, with(), "key file", Failed, "", "from its backup")
	no(t, os.WriteFile(file, seal.Generate(), 0o600))
	wantFinding(t, with(), "key file", OK, "", "seals with key ")
	no(t, os.Chmod(file, 0o644))
	wantFinding(t, with(), "key file", Failed, "", "mode 0644")
}
