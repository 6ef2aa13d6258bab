# What a developer runs. `make check` is what has to pass before a change lands.

.PHONY: test race lint generate fuzz mutation vulncheck bench bench-compare check

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

vulncheck:
	.ci/vulncheck

# AREA=plan, attempt or picker; all of them if left out.
mutation:
	.ci/mutation $(AREA)

# Results of a release are committed: make bench RELEASE=v1.2.3. Without it they are
# of what is here now, and make bench-compare shows what changed since a release.
RELEASE ?= next
BASE ?= $(shell git ls-files interop/bench/results | sort -V | sed -n '$$s|.*/\(.*\)\.txt|\1|p')
BENCHSTAT = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

bench:
	mkdir -p interop/bench/results
	cd interop && go run ./bench -benchfmt bench/results/$(RELEASE).txt
	go test -run '^$$' -bench 'Pick$$|PickOwn|EndpointUpdate|Unary$$|AttemptTimeout|Count$$' -count 6 \
		./balancer/composite ./internal/attempt >>interop/bench/results/$(RELEASE).txt

bench-compare:
	@test -n "$(BASE)" || { echo "no release has results yet: name some by BASE="; exit 1; }
	cd interop && go run $(BENCHSTAT) bench/results/$(BASE).txt bench/results/$(RELEASE).txt

check:
	.ci/run

.PHONY: tools
tools:
	.ci/tools
