package selfhost_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
)

// list requests a list and decodes its items.
func list(t *testing.T, s *selfhost.Server, target string) []wire.Item {
	t.Helper()
	var body struct {
		Keys []struct {
			Key       string  `json:"key"`
			Bytes     int     `json:"bytes"`
			UpdatedAt float64 `json:"updated_at"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(ask(s, "GET", target, "").Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	items := make([]wire.Item, len(body.Keys))
	for i, k := range body.Keys {
		items[i] = wire.Item(k)
	}
	return items
}

// botwireDB returns the path of a copy of a database made with BotWire's schema by Python's sqlite3.
func botwireDB(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/botwire.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "memory.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// execute runs statements on a database of the test.
func execute(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(statements)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestExistingDatabase(t *testing.T) {
	path := botwireDB(t)
	s := open(t, selfhost.Options{Path: path})
	expect(t, ask(s, "GET", "/memory/agents/history", ""), 200,
		`{"namespace":"agents","key":"history","value":"[{\"type\": \"human\", \"n\": 1}]","created_at":1700000001.25,"updated_at":1700000009.1234567}`)
	expect(t, ask(s, "GET", "/memory/agents/nul", ""), 200,
		`{"namespace":"agents","key":"nul","value":"ab\u0000cd","created_at":1700000002.5,"updated_at":1700000002.5}`)
	expect(t, ask(s, "GET", "/memory/agents", ""), 200,
		`{"namespace":"agents","count":3,"keys":[{"key":"history","bytes":27,"updated_at":1700000009.1234567},`+
			`{"key":"nul","bytes":2,"updated_at":1700000002.5},{"key":"user","bytes":5,"updated_at":1700000000.0}]}`)
	expect(t, ask(s, "GET", "/stats/memory", ""), 200, `{"total_entries":4,"total_namespaces":2,"total_bytes":41}`)

	ask(s, "PUT", "/memory/agents/user", `{"value":"Ana"}`)
	got := ask(s, "GET", "/memory/agents/user", "").Body.String()
	if !strings.Contains(got, `"value":"Ana","created_at":1700000000.0,`) {
		t.Errorf("an overwrite changed created_at: %s", got)
	}
	if first := list(t, s, "/memory/agents")[0]; first.Key != "user" {
		t.Errorf("newest is %+v", first)
	}
}

// A database from an earlier version is completed and used: it lacks the index, is in rollback mode,
// and has a column that rows can omit.
func TestDatabaseIsCompleted(t *testing.T) {
	path := botwireDB(t)
	execute(t, path, `PRAGMA journal_mode = DELETE; DROP INDEX idx_ns; ALTER TABLE kv ADD COLUMN note TEXT; CREATE TABLE other (x)`)
	s := open(t, selfhost.Options{Path: path})
	expect(t, ask(s, "DELETE", "/memory/agents/user", ""), 200, `{"deleted":true,"namespace":"agents","key":"user"}`)
	expect(t, ask(s, "PUT", "/memory/agents/new", `{"value":"x"}`), 200, `{"namespace":"agents","key":"new","stored":true,"bytes":1}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mode, index string
	if err := db.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = 'idx_ns'`).Scan(&index); err != nil {
		t.Fatal(err)
	}
	if want := "CREATE INDEX idx_ns ON kv(namespace)"; mode != "wal" || index != want {
		t.Errorf("got %s, %s, want wal, %s", mode, index, want)
	}
}

// A new database has exactly BotWire's own layout.
func TestNewDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "100% new?.db")
	if err := open(t, selfhost.Options{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemaOf(t, botwireDB(t)), schemaOf(t, path)); diff != "" {
		t.Errorf("schema (-BotWire +new):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("the file's mode is %o", got)
	}
}

// schemaOf returns the statements that created the database, with white space collapsed.
func schemaOf(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3F").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT name, coalesce(sql, '') FROM sqlite_schema`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	schema := make(map[string]string)
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			t.Fatal(err)
		}
		schema[name] = strings.Join(strings.Fields(statement), " ")
	}
	return schema
}

// A newer write still overwrites an entry written while the clock was ahead.
func TestClockBehindTheDatabase(t *testing.T) {
	path := botwireDB(t)
	execute(t, path, `UPDATE kv SET updated_at = 4000000000.5 WHERE key = 'user'`)
	s := open(t, selfhost.Options{Path: path})
	ask(s, "PUT", "/memory/agents/user", `{"value":"x"}`)
	item := list(t, s, "/memory/agents")[0]
	if item.Key != "user" || item.UpdatedAt <= 4000000000.5 || item.UpdatedAt > 4000000001 {
		t.Errorf("got %+v", item)
	}
}

func TestLayoutRefused(t *testing.T) {
	for name, c := range map[string]struct{ statements, says string }{
		"no value":       {`CREATE TABLE kv (namespace TEXT NOT NULL, key TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL, PRIMARY KEY (namespace, key))`, `no column "value"`},
		"other table":    {`CREATE TABLE kv (k TEXT PRIMARY KEY, v BLOB)`, `no column "namespace"`},
		"value type":     {`CREATE TABLE kv (namespace TEXT NOT NULL, key TEXT NOT NULL, value INTEGER NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL, PRIMARY KEY (namespace, key))`, `column "value" of table kv is INTEGER NOT NULL, expected TEXT NOT NULL`},
		"no primary key": {`CREATE TABLE kv (namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL)`, `expected TEXT NOT NULL (number 1 of the primary key)`},
		"other key":      {`CREATE TABLE kv (namespace TEXT NOT NULL, key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL)`, `column "namespace"`},
		"one more":       {`CREATE TABLE kv (namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (namespace, key))`, `demands a column "owner"`},
		"view":           {`CREATE TABLE t (namespace TEXT); CREATE VIEW kv AS SELECT * FROM t`, `column "namespace"`},
	} {
		path := filepath.Join(t.TempDir(), "memory.db")
		execute(t, path, c.statements)
		checkRefused(t, name, path, selfhost.ErrLayout, c.says)
	}
}

func TestNotDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "text", path, selfhost.ErrNotDatabase, "notes.txt")
}

// checkRefused opens path, which must fail with want and leave the file unchanged.
func checkRefused(t *testing.T, name, path string, want error, says string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = selfhost.Open(context.Background(), selfhost.Options{Path: path})
	if !errors.Is(err, want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want %q", name, err, says)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%s: the file was changed, %v", name, err)
	}
}

func TestPathRefused(t *testing.T) {
	folder := t.TempDir()
	for path, want := range map[string]error{
		folder: nil, "": nil, filepath.Join(folder, "none", "memory.db"): os.ErrNotExist,
	} {
		_, err := selfhost.Open(context.Background(), selfhost.Options{Path: path})
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestOpenIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	_, err := selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(t.TempDir(), "memory.db")})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
