package doctor

import (
	"fmt"
	"syscall"
)

// magics are Linux's numbers of file system types (statfs(2)).
var magics = map[uint32]string{
	0x6969: "nfs", 0x517b: "smbfs", 0xfe534d42: "smb2", 0xff534d42: "cifs", 0x5346414f: "afs",
	0x00c36400: "ceph", 0x73757245: "coda", 0x01021997: "9p", 0x65735546: "fuse",
	0x0bd00bd0: "lustre", 0x47504653: "gpfs",
	0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x794c7630: "overlay", 0x61756673: "aufs",
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xf2f52010: "f2fs", 0xca451a4e: "bcachefs",
}

// Look returns the file system that a directory is on.
func Look(dir string) (Volume, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Volume{}, err
	}
	name, known := magics[uint32(st.Type)]
	if !known {
		name = fmt.Sprintf("type %#x", uint32(st.Type))
	}
	return Volume{Type: name, Kind: kindOf(name), Free: st.Bavail * uint64(st.Bsize)}, nil
}
