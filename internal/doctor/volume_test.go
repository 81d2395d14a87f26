//go:build linux || darwin

package doctor_test

import (
	"os"
	"os/exec"
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

func TestHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	for _, made := range []bool{false, true} {
		if made {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if pid, err := doctor.Holder(name); pid != 0 || err != nil {
			t.Errorf("process %d holds it, %v", pid, err)
		}
	}
	holder := exec.Command(os.Args[0], "-test.run=^TestHoldsLock$")
	holder.Env = append(os.Environ(), "HOLD="+name)
	out, err := holder.StdoutPipe()
	in, err2 := holder.StdinPipe()
	if err != nil || err2 != nil || holder.Start() != nil {
		t.Fatal("the other process does not start")
	}
	_, _ = out.Read(make([]byte, 1)) // it has the lock
	pid, err := doctor.Holder(name)
	in.Close()
	_ = holder.Wait()
	if pid != holder.Process.Pid || err != nil {
		t.Errorf("process %d holds it, not %d, %v", pid, holder.Process.Pid, err)
	}
}
