package proxy_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/botwired/botwired/proxy/surface"
)

// tried are values for parameters: common ones, and some at and beyond bounds.
var tried = []string{
	"", "0", "1", "2", "-1", "100", "1000", "1001", "10000", "10001", "18446744073709551615", "99999999999999999999", "1.5", "0x10",
	"true", "false", "yes", "1s", "-1s", "1.5s", "5x", "1m", "61m", "1h", "2h", "n", "..", "bad name", "ä", "%zz",
	strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 129),
}

// Described parameters accept exactly the values of their schema. The refusal of another value names the
// parameter.
func TestParametersAreTakenAsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t)
		for _, op := range described().operations {
			for _, each := range elements(op.node["parameters"]) {
				if p := each.(map[string]any); p["in"] == "query" {
					s.tryParameter(op, p)
				}
			}
		}
	})
}

// tryParameter makes a request for each value.
func (s *sidecar) tryParameter(op *describedOperation, p map[string]any) {
	d := &description{} // its own, so that nothing is counted
	name := p["name"].(string)
	of := d.shape(op.method+" "+op.path+" "+name, p["schema"])
	mayBeEmpty, _ := p["allowEmptyValue"].(bool)
	isBoolean := p["schema"].(map[string]any)["type"] == "boolean"
	for _, value := range tried {
		if isBoolean && (value == "0" || value == "1") {
			continue // accepted as false and true, but not described
		}
		taken := value == "" && mayBeEmpty || value != "" && of.schema.Validate(fromText(p["schema"], value)) == nil
		if taken && slices.Contains(elements(op.node["tags"]), any("streams")) {
			continue // it would not end
		}
		w := s.do(strings.ToUpper(op.method), with(op.target(), name, value), op.body())
		switch refused := w.Code == http.StatusBadRequest || w.Code == http.StatusUnprocessableEntity; {
		case taken && refused:
			s.t.Errorf("%s %s?%s=%q is refused, and openapi.yaml describes it: %s", op.method, op.path, name, value, w.Body)
		case !taken && !refused:
			s.t.Errorf("%s %s?%s=%q is answered with %d, and openapi.yaml does not describe it", op.method, op.path, name, value, w.Code)
		case !taken && w.Code == http.StatusBadRequest && !strings.Contains(strings.ToLower(w.Body.String()), name):
			s.t.Errorf("%s %s?%s=%q: the refusal does not name it: %s", op.method, op.path, name, value, w.Body)
		}
	}
}

// body returns a body that the operation accepts; empty if it accepts none, or lines.
func (op *describedOperation) body() string {
	request, _ := op.node["requestBody"].(map[string]any)
	content, _ := request["content"].(map[string]any)
	if content["application/json"] == nil {
		return ""
	}
	return putBody("v")
}

// with returns a target with another value of a parameter.
func with(target, name, value string) string {
	path, raw, _ := strings.Cut(target, "?")
	query, err := url.ParseQuery(raw)
	if err != nil {
		panic(err)
	}
	query.Set(name, value)
	return path + "?" + query.Encode()
}

// A misspelt parameter is refused, except by the endpoints for monitoring.
func TestUnknownParametersAreRefused(t *testing.T) {
	s := newSidecar(t)
	for _, op := range described().operations {
		if !strings.HasPrefix(op.path, surface.Prefix) || op.path == surface.Prefix {
			continue
		}
		w := s.do(strings.ToUpper(op.method), with(op.target(), "unknown", "x"), "")
		if probes := slices.Contains(elements(op.node["tags"]), any("probes")); (w.Code == http.StatusBadRequest) == probes {
			t.Errorf("%s %s with an unknown parameter: %d", op.method, op.path, w.Code)
		}
	}
}
