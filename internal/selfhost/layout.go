package selfhost

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotDatabase means that the file is no SQLite database.
	ErrNotDatabase = errors.New("not an SQLite database")
	// ErrLayout means that the kv table of a database does not have BotWire's layout.
	ErrLayout = errors.New("not laid out as BotWire's memory database")
)

const (
	// connections bounds the concurrent readers; each has its own page cache (2 MB).
	connections = 8
	// busyMillis is how long an operation waits for another process that writes to the same file, as in
	// BotWire's own server.
	busyMillis = 10_000
)

// schema is BotWire's own.
const schema = `
	CREATE TABLE IF NOT EXISTS kv (
		namespace TEXT NOT NULL,
		key TEXT NOT NULL,
		value TEXT NOT NULL,
		created_at REAL NOT NULL,
		updated_at REAL NOT NULL,
		PRIMARY KEY (namespace, key)
	);
	CREATE INDEX IF NOT EXISTS idx_ns ON kv(namespace);`

func openStore(ctx context.Context, path string) (*store, error) {
	if path == "" {
		return nil, errors.New("open memory database: no path is given")
	}
	if err := ensureFile(path); err != nil {
		return nil, fmt.Errorf("open memory database: %w", err)
	}
	name, err := dataSource(path)
	if err != nil {
		return nil, fmt.Errorf("open memory database %s: %w", path, err)
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open memory database %s: %w", path, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("open memory database %s: %w", path, err), db.Close())
	}
	return &store{db: db}, nil
}

// ensureFile creates the file if it does not exist, readable and writable by its owner only. If the
// file cannot be opened for writing, ensureFile returns the system's error.
func ensureFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// dataSource returns the path as a URI with the settings of each connection. No character of the path
// can be taken for an option.
func dataSource(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	abs = filepath.ToSlash(abs)
	if !strings.HasPrefix(abs, "/") {
		abs = "/" + abs
	}
	settings := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyMillis), "synchronous(FULL)"}}
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: settings.Encode()}).String(), nil
}

// prepare checks the layout before it changes anything.
func prepare(ctx context.Context, db *sql.DB) error {
	if err := checkLayout(ctx, db); err != nil {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return fmt.Errorf("turn on write-ahead logging: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("turn on write-ahead logging: the file system allows only %q", mode)
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	return nil
}

// column describes one column of the layout; key is its place in the primary key.
type column struct {
	kind     string
	required bool
	key      int
}

// checkLayout accepts a database without a kv table, and one whose kv table has BotWire's columns and
// primary key. It accepts additional columns if a row can omit them.
func checkLayout(ctx context.Context, db *sql.DB) error {
	found, err := columns(ctx, db)
	if code(err) == sqlite3.SQLITE_NOTADB {
		return ErrNotDatabase
	}
	if err != nil || len(found) == 0 {
		return err
	}
	want := map[string]column{
		"namespace":  {"TEXT", true, 1},
		"key":        {"TEXT", true, 2},
		"value":      {"TEXT", true, 0},
		"created_at": {"REAL", true, 0},
		"updated_at": {"REAL", true, 0},
	}
	for _, name := range []string{"namespace", "key", "value", "created_at", "updated_at"} {
		if got, ok := found[name]; !ok {
			return fmt.Errorf("%w: table kv has no column %q", ErrLayout, name)
		} else if got != want[name] {
			return fmt.Errorf("%w: column %q of table kv is %s, expected %s", ErrLayout, name, got, want[name])
		}
		delete(found, name)
	}
	for name, c := range found {
		if c.required || c.key > 0 {
			return fmt.Errorf("%w: table kv demands a column %q", ErrLayout, name)
		}
	}
	return nil
}

// columns returns the columns of the kv table; none if there is no such table. A column with a default
// is not required.
func columns(ctx context.Context, db *sql.DB) (found map[string]column, err error) {
	rows, err := db.QueryContext(ctx, `SELECT lower(name), upper(type), "notnull" AND dflt_value IS NULL, pk FROM pragma_table_info('kv')`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found = make(map[string]column)
	for rows.Next() {
		var name string
		var c column
		if err := rows.Scan(&name, &c.kind, &c.required, &c.key); err != nil {
			return nil, err
		}
		found[name] = c
	}
	return found, rows.Err()
}

func (c column) String() string {
	s := c.kind
	if c.required {
		s += " NOT NULL"
	}
	if c.key > 0 {
		s += fmt.Sprintf(" (number %d of the primary key)", c.key)
	}
	return s
}
