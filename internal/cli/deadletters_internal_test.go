package cli

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/api"
)

// A write that a restore has made has no time that would mean anything to a reader.
func TestADeadLetterOfARestoreShowsNoTime(t *testing.T) {
	var out strings.Builder
	letters := []api.ListedDeadLetter{
		{ID: "7", Kind: "refused", Namespace: "shop", Key: "plan", Op: "put", WrittenAt: api.RestoredAt},
		{ID: "8", Kind: "refused", Namespace: "shop", Key: "stock", Op: "put", WrittenAt: 1795996159},
	}
	if err := printDeadLetters(&out, letters); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "1970") || !strings.Contains(got, "2026-11-29T23:49:19Z") {
		t.Errorf("it shows:\n%s", got)
	}
}
