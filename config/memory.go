package config

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// unknownMemory bounds cache.memory on a system that does not tell how much memory it has.
	unknownMemory = 64 << 30
	// leastMemory is always allowed: the default must not be refused.
	leastMemory = 64 << 20
)

// usableMemory returns how many bytes of memory this process may use: those of the machine
// or, in a container with less, of the container. They are whole MiB. It reads files of Linux below root;
// other systems do not say.
func usableMemory(root string) int64 {
	most := machineMemory(root)
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(root, name)) // a file that is not there limits nothing
		return strings.TrimSpace(string(text))
	}
	for line := range strings.Lines(read("proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] != "" && fields[1] != "memory" {
			continue
		}
		tree, file := "sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			tree, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if n, err := strconv.ParseInt(read(path.Join(tree, group, file)), 10, 64); err == nil && n > 0 {
				most = min(most, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return max(most, leastMemory) >> 20 << 20
}

func machineMemory(root string) int64 {
	text, _ := os.ReadFile(filepath.Join(root, "proc/meminfo")) // as above
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 && n < maxSize>>10 {
				return n << 10
			}
		}
	}
	return unknownMemory
}
