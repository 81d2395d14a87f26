package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// describedPath is a path in openapi.yaml, or a method of the path before.
var describedPath = regexp.MustCompile(`(?m)^ {2}(/\S+):$|^ {4}(get|put|post|delete):$`)

// endpoints are the operations of the daemon's own surface in openapi.yaml, as "GET status". The tests of the package
// proxy hold the daemon's answers against that document.
func endpoints(t *testing.T) map[string]bool {
	t.Helper()
	path, found := "", make(map[string]bool)
	for _, m := range describedPath.FindAllStringSubmatch(readDoc(t, "../proxy/openapi/openapi.yaml"), -1) {
		if m[1] != "" {
			path = m[1]
		} else if own, ok := strings.CutPrefix(path, "/_botwired/"); ok && own != "" {
			found[strings.ToUpper(m[2])+" "+own] = true
		}
	}
	if len(found) < 15 {
		t.Fatalf("only %d operations were found", len(found))
	}
	return found
}

var endpoint = regexp.MustCompile("`(GET|POST|DELETE) /_botwired/([a-z.-]+(?:/[a-z{}-]+)*)")

// Every operation of the daemon's own surface is in docs/http.md, and no other is.
func TestEndpointsAreDocumented(t *testing.T) {
	found, documented := endpoints(t), make(map[string]bool)
	for _, m := range endpoint.FindAllStringSubmatch(readDoc(t, "http.md"), -1) {
		documented[m[1]+" "+m[2]] = true
	}
	for name := range found {
		if !documented[name] {
			t.Errorf("docs/http.md lacks %s", name)
		}
	}
	for name := range documented {
		if !found[name] {
			t.Errorf("docs/http.md has %s, which the daemon does not answer", name)
		}
	}
}
