package main

import "context"

var memoryExtras = []extra{
	memoryExtra("memory-64x100", "memory of 64 clusters of 100 endpoints, all connected", 64, 100, true),
	memoryExtra("memory-64x1", "memory of 64 clusters of 1 endpoint, all connected", 64, 1, true),
	memoryExtra("memory-64x100-connecting", "memory of 64 clusters of 100 endpoints, connections that are being made", 64, 100, false),
	idleExtra,
}

func memoryExtra(name, title string, clusters, endpoints int, connected bool) extra {
	return extra{
		name: name, title: title,
		columns:    []string{"MB", "x-composite", "goroutines"},
		contenders: []string{ours, flat, split},
		run: func(ctx context.Context, t *host, o options, s *site, names []string) (rows [][]float64) {
			clusters, endpoints, server := clusters, endpoints, ""
			if o.small {
				clusters, endpoints = min(clusters, 4), min(endpoints, 3)
			}
			if connected {
				server = s.a.addr
			}
			var reference float64
			for _, name := range names {
				w := weighApart(ctx, t, scale{Kind: name, Channels: 1, Clusters: clusters, Endpoints: endpoints, Server: server})
				if name == ours {
					reference = float64(w.Bytes)
				}
				ratio := 0.0
				if reference > 0 {
					ratio = float64(w.Bytes) / reference
				}
				rows = append(rows, []float64{float64(w.Bytes) / 1e6, ratio, float64(w.Goroutines)})
			}
			return rows
		},
	}
}

// Channels that are compared by their thousands.
const (
	lazyUnused     = "composite, three lazy clusters, not used yet"
	bareUnused     = "bare, not used yet"
	lazyConnecting = "composite, first cluster connecting, two lazy"
	bareConnecting = "bare, connecting"
)

var idleExtra = extra{
	name:       "channels",
	title:      "10,000 channels in one process, of each",
	columns:    []string{"KB", "goroutines"},
	contenders: []string{lazyUnused, bareUnused, lazyConnecting, bareConnecting},
	run: func(ctx context.Context, t *host, o options, _ *site, names []string) (rows [][]float64) {
		channels := 10_000
		if o.small {
			channels = 50
		}
		kinds := map[string]scale{
			lazyUnused:     {Kind: ours, Clusters: 3},
			bareUnused:     {Kind: bare},
			lazyConnecting: {Kind: ours, Clusters: 3, Connect: true},
			bareConnecting: {Kind: bare, Connect: true},
		}
		for _, name := range names {
			s := kinds[name]
			s.Channels = channels
			w := weighApart(ctx, t, s)
			n := float64(channels)
			rows = append(rows, []float64{float64(w.Bytes) / 1e3 / n, float64(w.Goroutines) / n})
		}
		return rows
	},
}
