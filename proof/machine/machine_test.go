package machine

import (
	"runtime"
	"strings"
	"testing"
)

func TestThisMachineIsNamed(t *testing.T) {
	m := This(t.Context(), t.TempDir())
	if m.CPU == "" || m.Cores != runtime.NumCPU() || m.Go != runtime.Version() || len(m.Date) != len("2026-01-02") {
		t.Errorf("%+v", m)
	}
	if words := strings.Fields(m.Load); runtime.GOOS == "linux" && (len(words) != 3 || m.Disk == "" || m.Kernel == "linux") {
		t.Errorf("%+v", m)
	}
	if text := m.String(); !strings.HasPrefix(text, m.CPU+", ") || !strings.HasSuffix(text, " before") {
		t.Errorf("%s", text)
	}
}
