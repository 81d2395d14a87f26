package telemetry

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collectorOf returns a collector for an environment; answer answers its requests.
func collectorOf(t *testing.T, environment map[string]string, answer func(*http.Request) *http.Response) *collector {
	t.Helper()
	c, err := newCollector(func(name string) string { return environment[strings.TrimPrefix(name, "OTEL_EXPORTER_OTLP_")] })
	if err != nil {
		t.Fatal(err)
	}
	c.client.Transport = answering(answer)
	return c
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func status(code int, header ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: h, Body: io.NopCloser(strings.NewReader("busy"))}
}

var spans = []*otlp.ResourceSpans{{SchemaUrl: "the-spans"}}

func TestCollectorGoesByTheEnvironment(t *testing.T) {
	for name, environment := range map[string]map[string]string{
		"general": {"ENDPOINT": "http://c:4318/base/", "HEADERS": "authorization=Bearer%20x, tenant = a=b ", "COMPRESSION": "gzip"},
		"of traces": {"ENDPOINT": "http://other", "TRACES_ENDPOINT": "http://c:4318/base/v1/traces", "HEADERS": "tenant=other",
			"TRACES_HEADERS": "authorization=Bearer%20x,tenant=a=b", "COMPRESSION": "none", "TRACES_COMPRESSION": "gzip"},
	} {
		asked := 0
		c := collectorOf(t, environment, func(r *http.Request) *http.Response {
			asked++
			packed, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Fatal(name, err)
			}
			body, err := io.ReadAll(packed)
			var got otlp.TracesData
			if err != nil || proto.Unmarshal(body, &got) != nil || len(got.ResourceSpans) != 1 || got.ResourceSpans[0].SchemaUrl != "the-spans" {
				t.Errorf("%s: the body is %q, %v", name, body, err)
			}
			if r.URL.String() != "http://c:4318/base/v1/traces" || r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("Tenant") != "a=b" ||
				r.Header.Get("Content-Type") != "application/x-protobuf" {
				t.Errorf("%s: %s, %v", name, r.URL, r.Header)
			}
			return status(http.StatusOK)
		})
		if err := c.UploadTraces(t.Context(), spans); err != nil || asked != 1 {
			t.Errorf("%s: %d requests, %v", name, asked, err)
		}
	}
}

func TestEnvironmentOfNoUse(t *testing.T) {
	for name, value := range map[string]string{
		"ENDPOINT": "http://user:secret@c:x", "TIMEOUT": "10s", "HEADERS": "a=%zz", "CERTIFICATE": t.TempDir() + "/none", "CLIENT_KEY": t.TempDir() + "/none",
	} {
		_, err := newCollector(func(asked string) string { return map[string]string{"OTEL_EXPORTER_OTLP_" + name: value}[asked] })
		if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// No error holds the password in the URL, and no other host gets the headers.
func TestCollectorKeepsSecrets(t *testing.T) {
	environment := map[string]string{"ENDPOINT": "http://user:secret@c", "HEADERS": "key=mine"}
	for _, answer := range []*http.Response{status(http.StatusForbidden), status(http.StatusTemporaryRedirect, "Location", "http://other/")} {
		c := collectorOf(t, environment, func(r *http.Request) *http.Response {
			if r.URL.Host != "c" {
				t.Errorf("%s is asked with %v", r.URL, r.Header)
				return status(http.StatusOK)
			}
			return answer
		})
		err := c.UploadTraces(t.Context(), spans)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "http://user:xxxxx@c/v1/traces answered "+answer.Status) {
			t.Error(err)
		}
	}
}

// A busy collector is retried no sooner than it says; one that refuses is not retried.
func TestBusyCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		c := collectorOf(t, map[string]string{"ENDPOINT": "http://c"}, func(*http.Request) *http.Response {
			asked++
			switch asked {
			case 1:
				return status(http.StatusServiceUnavailable)
			case 2:
				return status(http.StatusTooManyRequests, "Retry-After", "7")
			}
			return status(http.StatusOK)
		})
		if err := c.UploadTraces(t.Context(), spans); err != nil || asked != 3 || time.Since(began) < 7*time.Second {
			t.Errorf("%d requests within %s, %v", asked, time.Since(began), err)
		}
		c = collectorOf(t, map[string]string{"ENDPOINT": "http://c"}, func(*http.Request) *http.Response { return status(http.StatusBadRequest) })
		if err := c.UploadTraces(t.Context(), spans); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("refused with %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c = collectorOf(t, map[string]string{"ENDPOINT": "http://c"}, func(*http.Request) *http.Response { return status(http.StatusBadGateway) })
		if err := c.UploadTraces(ctx, spans); err == nil || ctx.Err() == nil {
			t.Errorf("always busy: %v", err)
		}
	})
}
