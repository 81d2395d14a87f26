package doctor

import "syscall"

// Look returns the file system that a directory is on.
func Look(dir string) (Volume, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Volume{}, err
	}
	var name []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return Volume{Type: string(name), Kind: kindOf(string(name)), Free: st.Bavail * uint64(st.Bsize)}, nil
}
