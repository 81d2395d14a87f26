package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// maxAnswer bounds how much of a collector's answer an error quotes, in bytes.
	maxAnswer = 1 << 10
	// exportTimeout is the specification's default for one request.
	exportTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the pause before a retry.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

// collector sends spans to a collector as OTLP over HTTP. It implements [otlptrace.Client].
type collector struct {
	client   *http.Client
	endpoint *url.URL // may hold a password
	headers  http.Header
	gzip     bool
}

// newCollector reads the variables OTEL_EXPORTER_OTLP_*, as the OTLP exporter specification defines
// them. A variable for traces (OTEL_EXPORTER_OTLP_TRACES_*) overrides the general one.
func newCollector(getenv func(string) string) (*collector, error) {
	setting := func(name string) string {
		if value := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
			return value
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	c := &collector{headers: make(http.Header), gzip: setting("COMPRESSION") == "gzip"}
	variable, endpoint := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" {
		variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
		endpoint = strings.TrimSuffix(getenv(variable), "/") + "/v1/traces"
	}
	var err error
	if c.endpoint, err = url.Parse(endpoint); err != nil { // the error would quote the URL, which may hold a password
		return nil, fmt.Errorf("%s: expected a URL, such as http://localhost:4318", variable)
	}
	for pair := range strings.SplitSeq(setting("HEADERS"), ",") {
		name, value, given := strings.Cut(pair, "=")
		if !given {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the value of %s is not URL-encoded", strings.TrimSpace(name))
		}
		c.headers.Set(strings.TrimSpace(name), value)
	}
	timeout := exportTimeout
	if text := setting("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%q: expected milliseconds, such as 10000", text)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	certificates, err := readCertificates(setting("CERTIFICATE"), setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY"))
	if err != nil {
		return nil, err
	}
	c.client = &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: certificates, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second,
		},
		// Another host must not get the headers, which may hold a key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// readCertificates reads the files of authorities and of the client's own certificate. Either may be
// "".
func readCertificates(authorities, certificate, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		pem, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate in PEM", authorities)
		}
	}
	if certificate != "" || key != "" {
		own, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Start does nothing: each upload connects if necessary.
func (c *collector) Start(context.Context) error { return nil }

// Stop closes the idle connections.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. While the collector is busy or cannot be reached, UploadTraces retries
// until ctx ends.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// ExportTraceServiceRequest has the same wire format as TracesData, but its package adds gRPC to
	// the program.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // writing to a buffer cannot fail
		_ = w.Close()
		body = packed.Bytes()
	}
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		again, err := c.post(ctx, body)
		if err == nil || again < 0 {
			return err
		}
		select {
		case <-time.After(max(again, pause/2+rand.N(pause/2))):
		case <-ctx.Done():
			return err
		}
	}
}

// post makes one request. If a retry may succeed, again is how long the collector asks to wait;
// otherwise it is negative.
func (c *collector) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	request.Header = c.headers.Clone()
	request.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil || response.StatusCode/100 == 2 {
		return -1, err
	}
	err = fmt.Errorf("%s answered %s: %s", c.endpoint.Redacted(), response.Status, bytes.TrimSpace(text))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 if there is none
		return max(0, time.Duration(seconds)*time.Second), err
	}
	return -1, err
}
