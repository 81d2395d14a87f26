package selfhost

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// store is the kv table: entries by namespace and key. Its methods may be called concurrently. The
// server has checked the names and the value's length.
type store struct {
	db *sql.DB

	// mu makes the order of the timestamps the order of the commits. It also keeps writers of this
	// process from waiting for each other in SQLite's busy handler, which is not fair.
	mu   sync.Mutex
	last int64 // the last updated_at issued, in microseconds

	// A request holds open for reading, from begin on; Close locks it.
	open   sync.RWMutex
	closed bool
}

// errClosed is the error of a request after Close.
var errClosed = errors.New("the database has been closed")

// begin admits a request; the caller must call done when it ends.
func (s *store) begin() (done func(), err error) {
	s.open.RLock()
	if s.closed {
		s.open.RUnlock()
		return nil, errClosed
	}
	return s.open.RUnlock, nil
}

// Close waits for the requests in progress. Later ones fail with errClosed.
func (s *store) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close memory database: %w", err)
	}
	return nil
}

// now returns the time for a write: at least a microsecond later than any before, even if the wall
// clock is set back. The caller holds mu.
func (s *store) now() float64 {
	s.last = max(time.Now().UnixMicro(), s.last+1)
	return float64(s.last) / 1e6
}

// Set stores a value, and returns once it is durable. An overwrite keeps created_at, and updated_at
// grows even if an earlier run's clock was ahead.
func (s *store) Set(ctx context.Context, ns, key, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO kv (namespace, key, value, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)
		ON CONFLICT (namespace, key) DO UPDATE
		SET value = excluded.value, updated_at = max(excluded.updated_at, kv.updated_at + 0.000001)`,
		ns, key, value, s.now())
	return err
}

// Get returns an entry, or found false.
func (s *store) Get(ctx context.Context, ns, key string) (e wire.Entry, found bool, err error) {
	e = wire.Entry{Namespace: ns, Key: key}
	row := s.db.QueryRowContext(ctx, `SELECT value, created_at, updated_at FROM kv WHERE namespace = ? AND key = ?`, ns, key)
	err = row.Scan(&e.Value, &e.CreatedAt, &e.UpdatedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return wire.Entry{}, false, nil
	}
	return e, err == nil, err
}

// Remove deletes an entry, and returns once the delete is durable. existed reports whether there was
// one.
func (s *store) Remove(ctx context.Context, ns, key string) (existed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	result, err := s.db.ExecContext(ctx, `DELETE FROM kv WHERE namespace = ? AND key = ?`, ns, key)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// Scrub makes the files free of what was deleted and overwritten. It fails if another process reads the
// database.
func (s *store) Scrub(ctx context.Context) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.db.ExecContext(ctx, `VACUUM`); err != nil {
		return err
	}
	var busy, logged, moved int
	if err := s.db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &logged, &moved); err != nil || busy == 0 {
		return err
	}
	return errors.New("somebody reads the memory database: its log still has what was deleted")
}

// List returns at most limit items of a namespace, newest first.
func (s *store) List(ctx context.Context, ns string, limit int) (l wire.Listing, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT key, length(value), updated_at FROM kv WHERE namespace = ? ORDER BY updated_at DESC LIMIT ?`, ns, limit)
	if err != nil {
		return wire.Listing{}, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	l.Namespace = ns
	for rows.Next() {
		var item wire.Item
		if err := rows.Scan(&item.Key, &item.Bytes, &item.UpdatedAt); err != nil {
			return wire.Listing{}, err
		}
		l.Items = append(l.Items, item)
	}
	return l, rows.Err()
}

// Stats returns the totals over all namespaces; it counts bytes as a list does.
func (s *store) Stats(ctx context.Context) (entries, namespaces, bytes int64, err error) {
	row := s.db.QueryRowContext(ctx, `SELECT count(*), count(DISTINCT namespace), coalesce(sum(length(value)), 0) FROM kv`)
	err = row.Scan(&entries, &namespaces, &bytes)
	return entries, namespaces, bytes, err
}
