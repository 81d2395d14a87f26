package config

import (
	"os"
	"path/filepath"
	"testing"
)

// The memory is that of the machine, or of the tightest group around the process.
func TestUsableMemory(t *testing.T) {
	const machine = "MemFree: 1 kB\nMemTotal:       8388608 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a machine": {map[string]string{"proc/meminfo": machine}, 8 << 30},
		"a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870913\n"}, 512 << 20},
		"a service": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/botwired.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                  "1073741824\n",
			"sys/fs/cgroup/system.slice/botwired.service/memory.max": "max\n"}, 1 << 30},
		"an older container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:cpuset:/a\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n"}, 2 << 30},
		"no limit in an older container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8 << 30},
		"less than the default": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n"}, 64 << 20},
		"nobody knows": {nil, unknownMemory},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range test.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := usableMemory(root); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}
