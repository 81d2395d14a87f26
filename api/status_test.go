package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
)

// Namespaces that need attention come first.
func TestNamespacesThatNeedAttention(t *testing.T) {
	at := time.Now()
	all := []api.NamespaceStatus{
		{Namespace: "busy", Pending: 9},
		{Namespace: "full", Full: "HTTP 507"},
		{Namespace: "idle"},
		{Namespace: "locked", Paused: "HTTP 401"},
		{Namespace: "locked too", Paused: "HTTP 401", Pending: 3},
		{Namespace: "short", Quota: &api.Quota{RunsOutAt: &at}},
		{Namespace: "lost", DataLoss: &api.DataLoss{}},
		{Namespace: "waits", Waits: &api.Wait{Why: "throttled"}},
	}
	var got []string
	for _, n := range api.MostUrgent(slices.Clone(all), 7) {
		got = append(got, n.Namespace)
	}
	if diff := cmp.Diff([]string{"lost", "locked too", "full", "locked", "waits", "short", "busy"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
