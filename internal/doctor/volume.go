package doctor

// Kind classifies a file system by how durable data is on it.
type Kind string

// The kinds of file systems.
const (
	Local   Kind = "local"
	Network Kind = "network" // on another machine, or on a virtual machine's host
	Memory  Kind = "memory"  // lost when the machine restarts
	Layer   Kind = "layer"   // a container's layer, lost with the container
)

// Volume is the file system that a directory is on.
type Volume struct {
	Type string // as in mount, or a number
	Kind Kind
	Free uint64 // bytes that this user can use
}

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
