# What a developer runs. `make check` is what has to pass before a change lands.

.PHONY: test race lint generate fuzz bench check

test:
	go test ./...

race:
	go test -race ./...

lint: tools
	.tools/bin/golangci-lint run ./...
	cd interop && ../.tools/bin/golangci-lint run --config ../.golangci.yml ./...
	cd examples/xds && ../../.tools/bin/golangci-lint run --config ../../.golangci.yml ./...
	cd examples/otel && ../../.tools/bin/golangci-lint run --config ../../.golangci.yml ./...

generate: tools
	cd proto && PATH="$(CURDIR)/.tools/bin:$$PATH" buf generate

fuzz:
	.ci/fuzz 1m

bench:
	go test -run '^$$' -bench 'Pick$$' -count 5 ./balancer/composite
	go test -run '^$$' -bench 'Unary$$' -benchtime 10s -count 3 ./balancer/composite

check:
	.ci/run

.PHONY: tools
tools:
	.ci/tools
