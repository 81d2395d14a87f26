package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// formatFile names the format version in clear, so that it can be read before
	// anything of the directory is touched (contract 21).
	formatFile = "FORMAT"
	formatLine = "botwired journal "
	// formatVersion is the version of the layout in the package's doc.
	formatVersion = 1
)

const (
	// memTableSize bounds what Pebble keeps in memory before it writes a table. Four
	// of them may wait, which absorbs a burst of writes without a stall.
	memTableSize      = 8 << 20
	memTablesAtMost   = 4
	blockCacheSize    = 16 << 20
	openFilesAtMost   = 256
	bytesPerSyncTable = 1 << 20
)

// checkFormat refuses a directory that another format version of botwired, or
// something else, has written.
func checkFormat(fsys vfs.FS, dir string) error {
	f, err := fsys.Open(fsys.PathJoin(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return checkEmpty(fsys, dir)
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, 256))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(text)), formatLine)
	version, err := strconv.Atoi(number)
	if !ok || err != nil {
		return fmt.Errorf("%w: file %s does not say %q and a version", ErrFormat, formatFile, strings.TrimSpace(formatLine))
	}
	if version != formatVersion {
		return fmt.Errorf("%w: the directory has version %d, this botwired reads version %d", ErrFormat, version, formatVersion)
	}
	return nil
}

// checkEmpty refuses a directory without a format file that has a store in it: its
// file was lost, or it is not ours.
func checkEmpty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") {
			return fmt.Errorf("%w: it holds %s but no file %s", ErrFormat, name, formatFile)
		}
	}
	return nil
}

// writeFormat makes the format file of a new directory, durably.
func writeFormat(fsys vfs.FS, dir string) error {
	path := fsys.PathJoin(dir, formatFile)
	if _, err := fsys.Stat(path); err == nil {
		return nil
	}
	f, err := fsys.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s%d\n", formatLine, formatVersion)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func lockError(err error) error {
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held") {
		return ErrInUse
	}
	return err
}

func (j *Journal) storeOptions() *pebble.Options {
	opts := &pebble.Options{
		FS:                          j.opts.FS,
		Lock:                        j.lock,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: memTablesAtMost,
		MaxOpenFiles:                openFilesAtMost,
		BytesPerSync:                bytesPerSyncTable,
		CacheSize:                   blockCacheSize,
		Logger:                      storeLogger{j},
	}
	opts.WithFSDefaults()
	return opts
}

// openStore opens Pebble. A new store is closed and opened once more: only then is
// its first log one in which a damaged middle is told from a torn end.
func (j *Journal) openStore() (*pebble.DB, error) {
	desc, err := pebble.Peek(j.opts.Dir, j.opts.FS)
	if err != nil {
		return nil, err
	}
	if !desc.Exists {
		db, err := pebble.Open(j.opts.Dir, j.storeOptions())
		if err != nil {
			return nil, err
		}
		err = db.Set(stateKey, seal(stateKey, appendTotals(nil, &totals{})), pebble.Sync)
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
	}
	return pebble.Open(j.opts.Dir, j.storeOptions())
}

// storeLogger is Pebble's logger. Pebble reports a failed log write by Fatalf and
// goes on to acknowledge if that returns, so it has to end the process here.
type storeLogger struct{ j *Journal }

func (l storeLogger) Infof(format string, args ...any) {
	l.log(slog.LevelDebug, format, args)
}

func (l storeLogger) Errorf(format string, args ...any) {
	l.log(slog.LevelError, format, args)
}

func (l storeLogger) Fatalf(format string, args ...any) {
	l.j.fail(fmt.Errorf(format, args...))
}

func (l storeLogger) log(level slog.Level, format string, args []any) {
	logger, ctx := l.j.opts.Logger, context.Background()
	if logger.Enabled(ctx, level) {
		logger.Log(ctx, level, "pebble", "message", fmt.Sprintf(format, args...))
	}
}

// get reads one sealed record; ok is false when there is none.
func get(r pebble.Reader, key []byte) (body []byte, ok bool, err error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	body, err = unseal(key, append([]byte(nil), value...))
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, false, err
	}
	return body, true, nil
}

func readTotals(r pebble.Reader) (totals, error) {
	body, ok, err := get(r, stateKey)
	if err != nil {
		return totals{}, err
	}
	if !ok {
		return totals{}, fmt.Errorf("%w: the state record is missing", ErrCorrupt)
	}
	return decodeTotals(body)
}
