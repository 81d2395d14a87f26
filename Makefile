# Everything the project needs is done from here. `make` lists the targets.

GO        ?= go
BIN       := bin/botwired
TOOLS     := bin/tools
LINT      := $(TOOLS)/golangci-lint
LINT_AT   := v2.15.0
BENCHSTAT := $(TOOLS)/benchstat
RUN_DIR   ?= .run

# What the program says of itself. Without a repository it is what Go's own build knows.
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# How long the long tests take. SIM_FOR (such as 10m) goes by time instead of by seeds.
SIM_SEEDS ?= 10000
SIM_FOR   ?=
FUZZ_FOR  ?= 30s

# What make microbench runs, and how often.
ROUNDS    ?= 6
BASE      ?=
MICRO     := $(GO) test -run '^$$' -bench . -benchtime 500ms ./cache ./journal ./proxy ./internal/wire ./internal/load

# No C compiler is needed, but by the race detector.
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Start the daemon on its embedded upstream, with its data in .run
	$(BIN) serve --upstream embedded --data-dir $(RUN_DIR)

.PHONY: build
build: ## Build bin/botwired
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/botwired

.PHONY: test
test: ## Run the tests
	$(GO) test ./...

.PHONY: race
race: ## Run the tests under the race detector
	CGO_ENABLED=1 $(GO) test -race ./...

.PHONY: lint
lint: $(LINT) ## Check format, vet and the linters' rules
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(LINT) run ./...

$(LINT): tools/go.mod
	cd tools && $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: sim
sim: ## Simulate SIM_SEEDS lives of the daemon under faults, or as many as fit in SIM_FOR
	$(GO) test -count=1 -timeout 0 -run '^TestSimulation$$' ./proof/sim \
		$(if $(SIM_FOR),-sim.for=$(SIM_FOR),-rapid.checks=$(SIM_SEEDS))

.PHONY: linear
linear: ## Check SIM_SEEDS histories of callers at work all at once for linearizability
	$(GO) test -count=1 -timeout 0 -run '^TestLinear' ./proof/sim -linear.rounds=$(SIM_SEEDS)

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZ_FOR
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h '^func Fuzz' $$dir/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_FOR) $$dir; \
		done; \
	done

# The binary is built by the tests themselves. Without strace, mounts or root they skip
# what needs them, and say so.
.PHONY: faults
faults: build ## Test the binary on full and failing disks, under signals and clock jumps
	@command -v strace >/dev/null || [ "$$(uname -s)" != Linux ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace; } || \
		echo "strace is missing and cannot be installed: the tests of a failing disk will be skipped" >&2
	$(GO) test -tags faults -count=1 -v ./proof/faults

# ONLY is a regular expression, such as '8: .*listing': only those rows. TABLE=1 writes
# the table in docs/contract.md.
.PHONY: mutants
mutants: ## Take out the guards of the contract, one at a time, and see a test fail
	@$(GO) run ./proof/mutants $(if $(TABLE),-table) $(if $(ONLY),-run '$(ONLY)')

.PHONY: sweep
sweep: ## Fail every file operation of a scenario in turn, and cut the power at each
	$(GO) test -tags sweep -count=1 -run Sweep ./journal

# What is compared, and how, is said in proof/bench/doc.go. BENCH are its flags, such
# as -rounds 9, -only GET or -quick. Without Redis its columns are left out.
.PHONY: bench
bench: build ## Measure botwired beside net/http, Redis and upstream; BENCH=-quick to try it
	@command -v redis-server >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server; } >&2 || \
		echo "redis-server is missing and cannot be installed: it is left out" >&2
	@$(GO) build -o bin/bench ./proof/bench
	@bin/bench $(BENCH)

# GROWTH are the flags, such as -sizes 1000,100000 or -quick.
.PHONY: growth
growth: build ## Measure botwired with ever more entries, and draw docs/growth.svg
	@$(GO) build -o bin/bench ./proof/bench
	@bin/bench growth $(GROWTH)

# With BASE, a commit, both are run in turns and compared.
.PHONY: microbench
microbench: $(BENCHSTAT) ## Run the packages' benchmarks ROUNDS times; BASE=main compares with it
	@mkdir -p bin && rm -f bin/micro-*.txt
	@$(if $(BASE),git worktree remove --force bin/base 2>/dev/null; git worktree add -q --detach bin/base $(BASE))
	@for round in $$(seq $(ROUNDS)); do \
		$(if $(BASE),(cd bin/base && $(MICRO)) >> bin/micro-base.txt;) \
		$(MICRO) >> bin/micro-here.txt || { cat bin/micro-here.txt; exit 1; }; \
	done
	@$(if $(BASE),git worktree remove --force bin/base)
	@$(BENCHSTAT) $(if $(BASE),$(BASE)=bin/micro-base.txt) here=bin/micro-here.txt

$(BENCHSTAT): tools/go.mod
	cd tools && $(GO) build -o ../$(BENCHSTAT) golang.org/x/perf/cmd/benchstat

.PHONY: e2e
e2e: build ## Run BotWire's own clients, Python and Node, against the daemon
	proof/e2e/run

.PHONY: clean
clean: ## Remove what was built, and the data of make run
	rm -rf bin $(RUN_DIR) .venv .e2e
