package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/proof/cluster/check"
)

// Refused is an answer that says no.
type Refused struct {
	Status int
	Text   string
}

func (r *Refused) Error() string { return fmt.Sprintf("HTTP %d: %.300s", r.Status, r.Text) }

// IsStatus reports whether an error is an answer with the status.
func IsStatus(err error, status int) bool {
	refused := new(Refused)
	return errors.As(err, &refused) && refused.Status == status
}

// do makes one request. Its error is a *[Refused] if there was a whole answer.
func (d *Daemon) do(ctx context.Context, method, path string, body []byte) (http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := d.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, nil, &Refused{response.StatusCode, string(text)}
	}
	return response.Header, text, nil
}

func (d *Daemon) read(ctx context.Context, path string, into any) error {
	_, text, err := d.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func entryPath(e check.Entry) string { return "/memory/" + e.Namespace + "/" + e.Key }

// Put writes an entry, and returns the write's number.
func (d *Daemon) Put(ctx context.Context, e check.Entry, value string) (seq uint64, err error) {
	body, err := json.Marshal(map[string]string{"value": value})
	if err != nil {
		return 0, err
	}
	header, _, err := d.do(ctx, http.MethodPut, entryPath(e), body)
	if err != nil {
		return 0, err
	}
	return writeOf(header)
}

// Delete deletes an entry. The number is 0 if there was none.
func (d *Daemon) Delete(ctx context.Context, e check.Entry) (seq uint64, err error) {
	header, _, err := d.do(ctx, http.MethodDelete, entryPath(e), nil)
	if IsStatus(err, http.StatusNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return writeOf(header)
}

// writeOf is the number in an acknowledgement.
func writeOf(header http.Header) (seq uint64, err error) {
	text := header.Get("Botwired-Write")
	_, number, _ := strings.Cut(text, "seq=")
	if seq, err = strconv.ParseUint(number, 10, 64); err != nil {
		err = fmt.Errorf("an acknowledgement with Botwired-Write: %q", text)
	}
	return seq, err
}

// Get reads an entry.
func (d *Daemon) Get(ctx context.Context, e check.Entry) (s check.State, found bool, err error) {
	var doc struct {
		Value     string
		UpdatedAt float64 `json:"updated_at"`
	}
	err = d.read(ctx, entryPath(e), &doc)
	if IsStatus(err, http.StatusNotFound) {
		return s, false, nil
	}
	return check.State{Value: doc.Value, UpdatedAt: micros(doc.UpdatedAt)}, err == nil, err
}

// micros is a time in microseconds, of Unix seconds.
func micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }

// List lists a namespace: the times of its keys, which are limit at most.
func (d *Daemon) List(ctx context.Context, namespace string, limit int) (map[string]int64, error) {
	var doc struct {
		Keys []struct {
			Key       string
			UpdatedAt float64 `json:"updated_at"`
		}
	}
	if err := d.read(ctx, fmt.Sprintf("/memory/%s?limit=%d", namespace, limit), &doc); err != nil {
		return nil, err
	}
	keys := make(map[string]int64)
	for _, k := range doc.Keys {
		keys[k.Key] = micros(k.UpdatedAt)
	}
	return keys, nil
}

// Pending returns how many writes are not settled.
func (d *Daemon) Pending(ctx context.Context) (int, error) {
	var doc struct{ Pending int }
	err := d.read(ctx, "/_botwired/status", &doc)
	return doc.Pending, err
}

// Flush waits until all that was acknowledged is settled or dead, for a limited time.
func (d *Daemon) Flush(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/_botwired/flush?now=true&timeout="+url.QueryEscape(limit.String()), http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: d.http.Transport}).Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusOK {
		err = &Refused{response.StatusCode, string(text)}
	}
	return err
}

// Receipt says what has become of a write. The zero receipt is of one that has none.
func (d *Daemon) Receipt(ctx context.Context, seq uint64) (check.Receipt, error) {
	var doc struct {
		State     string
		WrittenAt float64 `json:"written_at"`
		By        *uint64
	}
	err := d.read(ctx, fmt.Sprintf("/_botwired/receipts/%d", seq), &doc)
	if IsStatus(err, http.StatusNotFound) {
		return check.Receipt{}, nil
	}
	r := check.Receipt{State: doc.State, WrittenAt: micros(doc.WrittenAt)}
	if doc.By != nil {
		r.By = *doc.By
	}
	return r, err
}

// lettersPage is how many dead letters one request asks for.
const lettersPage = 10_000

// Letters returns all dead letters.
func (d *Daemon) Letters(ctx context.Context) (all []check.Letter, err error) {
	for after := ""; ; {
		var doc struct {
			Letters []struct {
				ID, Kind, Host, Namespace, Key string
				Seq                            uint64
				WrittenAt                      float64 `json:"written_at"`
			} `json:"dead_letters"`
		}
		if err := d.read(ctx, fmt.Sprintf("/_botwired/dead-letters?limit=%d%s", lettersPage, after), &doc); err != nil {
			return nil, err
		}
		for _, l := range doc.Letters {
			all = append(all, check.Letter{
				Own: l.Host == "this", Kind: l.Kind, Seq: l.Seq, Entry: check.Entry{Namespace: l.Namespace, Key: l.Key}, WrittenAt: micros(l.WrittenAt),
			})
			after = "&after=" + l.ID
		}
		if len(doc.Letters) < lettersPage {
			return all, nil
		}
	}
}
