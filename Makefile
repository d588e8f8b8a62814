# Every target works on a machine that has Go, make and the Go module proxy;
# race (and so check) also needs a C compiler.
GO        ?= go
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LINT      := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT := $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20250813145418-2f7363a06fe1
# Inputs, not seconds: with a time, go test -fuzz now and then fails when it is over.
FUZZTIME  ?= 3000x
# Most tests wait for something, so more of them run at a time than there are cores.
PARALLEL  ?= 8
# The race detector slows what runs, not what waits: more of them starve each other.
RACERS    ?= 4
# Whose targets make fuzz runs. A package's whole graph is compiled anew for that, so check
# leaves out those with many imports; their seeds are in the tests.
FUZZED    ?= ./...
PARSERS   := ./prefixtree ./actors/workerurl ./proxy/formdata ./proxy/httphead ./proxy/keyring ./proxy/orca ./proxy/pd ./proxy/rawjson ./proxy/routekey ./proxy/sse ./proxy/upstream ./proxy/usage
EVENTS    ?= 1000000
SEED      ?= 0
ADDR      ?= 127.0.0.1:30000
PEERS     ?=

.DEFAULT_GOAL := help
.PHONY: help build run test race fuzz chaos bench bench-smoke bench-compare bench-report manuals chart-check lint fmt tidy-check check

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build bin/loadstar
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/loadstar ./cmd/loadstar

run: build ## start the router on two simulated workers in the same process
	./bin/loadstar demo --listen $(ADDR)

test: ## all tests, shuffled; needs no C compiler
	CGO_ENABLED=0 $(GO) test -shuffle=on -parallel $(PARALLEL) ./...

race: ## the router's tests under the race detector
	CGO_ENABLED=1 $(GO) test -race -shuffle=on -count=1 -parallel $(RACERS) ./actors/... ./cmd/... ./prefixtree/... ./proxy/...

fuzz: ## a short run of every fuzz target, FUZZTIME inputs each
	@set -e; $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(FUZZED) | while read p; do \
		$(GO) test $$p -list '^Fuzz' | grep '^Fuzz' | while read f; do \
			echo "fuzz $$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x || exit 1; \
		done || exit 1; \
	done

chaos: ## EVENTS random requests, departures, panics and faults against the router; SEED=n repeats a run
	$(GO) test ./proxy -run '^TestChaos(PD)?$$' -v -count=1 -timeout 4h -parallel 8 -chaos.events $(EVENTS) -chaos.seed $(SEED)

bench: ## microbenchmarks, five runs, summarised
	@mkdir -p bin
	$(GO) test ./... -run '^$$' -bench . -benchmem -count 5 -benchtime 200ms | tee bin/bench.txt
	$(BENCHSTAT) bin/bench.txt

bench-smoke: ## run each benchmark once, to keep them compiling and honest
	$(GO) test ./... -run '^$$' -bench . -benchtime 1x

bench-compare: ## measure the router beside all others that are found, in PATH or the directory PEERS; installs nothing
	$(GO) run ./bench compare $(if $(PEERS),--peers-dir $(PEERS))
	$(GO) run ./bench report

bench-report: ## make pages and charts again from the raw results in bench/results
	$(GO) run ./bench report

manuals: build ## the man page and shell completions, in bin/manuals
	@mkdir -p bin/manuals
	bin/loadstar man > bin/manuals/loadstar.1
	bin/loadstar completion bash > bin/manuals/loadstar.bash
	bin/loadstar completion zsh > bin/manuals/_loadstar
	bin/loadstar completion fish > bin/manuals/loadstar.fish

chart-check: ## Helm's own look at the chart; builds Helm first, which takes minutes
	$(GO) run helm.sh/helm/v3/cmd/helm@v3.22.0 lint --strict cmd/loadstar/packaging/helm/loadstar

lint: ## static checks, architecture rules included
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(LINT) run ./...

fmt: ## format in place
	$(LINT) fmt

tidy-check: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff

check: FUZZED = $(PARSERS)
check: tidy-check lint test race fuzz bench-smoke build ## what must pass before a merge
