package doctor

// Kind classifies a file system by how well data lasts on it.
type Kind string

// The kinds of file systems.
const (
	Local   Kind = "local"
	Network Kind = "network" // on another machine, or on the host of a virtual one
	Memory  Kind = "memory"  // gone at the next start of the machine
	Layer   Kind = "layer"   // of a container, and gone with it
)

// Volume is the file system that a directory is on.
type Volume struct {
	Type string // as mount names it, or a number
	Kind Kind
	Free uint64 // bytes that this user may take
}

// kindOf tells the kind of a file system by its type.
func kindOf(name string) Kind {
	switch name {
	case "nfs", "smbfs", "smb2", "cifs", "afs", "afpfs", "ceph", "coda", "9p", "fuse", "virtiofs", "webdav", "lustre", "gpfs":
		return Network
	case "tmpfs", "ramfs":
		return Memory
	case "overlay", "aufs":
		return Layer
	}
	return Local
}
