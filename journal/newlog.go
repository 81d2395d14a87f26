package journal

// zeroAhead is how much of a log, in bytes, is filled with zeros at a time.
const zeroAhead = 256 << 10

// newLog is a new log. What has been allocated and not written to is filled with zeros
// ahead of the records: else each sync would have to note of another piece of the file
// that it has been written to now, which takes nearly as long again as the rest of it. A
// log that is used again has been written to.
type newLog struct {
	watchedFile
	written int64 // up to where there are records
	zeroed  int64 // up to where something has been written
	room    int64 // up to where the file has been allocated
}

func (f *newLog) Write(b []byte) (int, error) {
	f.fill(f.written + int64(len(b)))
	n, err := f.watchedFile.Write(b)
	f.written += int64(n)
	return n, err
}

// fill writes zeros behind what is about to be written. What goes wrong with them does
// not matter: they are there for speed only, and a disk that fails fails the records too.
func (f *newLog) fill(end int64) {
	if end <= f.zeroed || f.zeroed >= f.room {
		return
	}
	from := max(f.zeroed, end)
	if f.zeroed = min(from+zeroAhead, f.room); from >= f.zeroed {
		return
	}
	if _, err := f.WriteAt(zeros[:f.zeroed-from], from); err != nil {
		f.room = 0
	}
}

var zeros [zeroAhead]byte
