package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/botwired/botwired/internal/wire"
)

// ImportLine is a line of a file to import: an entry, or the end of a namespace's export.
type ImportLine struct {
	Namespace, Key, Value string
	UpdatedAt             float64       // Unix seconds; 0 if the line has none
	End                   *ExportCounts // nil for an entry
}

// ParseImportLine parses a line of an export. An entry needs namespace, key and value; unknown fields
// are ignored. The error never holds a value.
func ParseImportLine(line []byte) (l ImportLine, err error) {
	var fields struct {
		Namespace *string         `json:"namespace"`
		Key       *string         `json:"key"`
		UpdatedAt *float64        `json:"updated_at"`
		End       json.RawMessage `json:"end"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return l, notAnEntry(err)
	}
	if fields.Key == nil && json.Unmarshal(fields.End, &l.End) == nil && l.End != nil {
		return l, nil
	}
	switch {
	case fields.Namespace == nil:
		return l, errors.New("it has no namespace")
	case fields.Key == nil:
		return l, errors.New("it has no key")
	}
	l.Namespace, l.Key = *fields.Namespace, *fields.Key
	if fields.UpdatedAt != nil {
		l.UpdatedAt = *fields.UpdatedAt
	}
	if l.UpdatedAt < 0 || math.IsInf(l.UpdatedAt, 0) {
		return l, errors.New("its updated_at is no time: expected Unix seconds")
	}
	var refusal *wire.Refusal
	if l.Value, refusal = wire.DecodePut(http.Header{"Content-Type": {"application/json"}}, line); refusal != nil {
		return l, errors.New("its value is not valid Unicode")
	}
	if refusal = wire.CheckPut(l.Namespace, l.Key, l.Value); refusal != nil {
		return l, errors.New((&Refused{Status: refusal.Status, Body: refusal.Body}).Detail())
	}
	return l, nil
}

func notAnEntry(err error) error {
	if field, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && field.Field != "" {
		return fmt.Errorf("its %s has another type than expected", field.Field)
	}
	return errors.New("it is no JSON object: expected one entry on each line, as botwired export prints it")
}
