package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

const scrapeTimeout = 5 * time.Second

// endpoint is a Prometheus endpoint on loopback, and the provider whose metrics it
// has.
type endpoint struct {
	url    string
	meters *sdkmetric.MeterProvider
	server *http.Server
	served chan error
}

func startEndpoint() (*endpoint, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	e := &endpoint{
		url:    fmt.Sprintf("http://%s/metrics", lis.Addr()),
		meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: scrapeTimeout},
		served: make(chan error, 1),
	}
	go func() { e.served <- e.server.Serve(lis) }()
	return e, nil
}

func (e *endpoint) stop(ctx context.Context) error {
	err := errors.Join(e.server.Close(), e.meters.Shutdown(ctx))
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// scrape returns the endpoint's lines of the metrics composite.*.
func (e *endpoint) scrape(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", e.url, resp.Status), err)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "composite_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, nil
}
