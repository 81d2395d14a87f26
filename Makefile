# Every task of the project has a target here. `make` lists them.

GO        ?= go
BIN       := bin/botwired
TOOLS     := bin/tools
LINT      := $(TOOLS)/golangci-lint
LINT_AT   := v2.15.0
BENCHSTAT := $(TOOLS)/benchstat
BOMCHECK  := $(TOOLS)/bomcheck
ACTIONLINT := $(TOOLS)/actionlint
PACKAGING := bin/packaging
WHEELHOUSE := bin/wheelhouse
RUN_DIR   ?= .run

# The version that the program reports. Without a repository, Go's build knows its own.
VERSION   ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)

# TEST_WITHIN ends a hang of one package's tests: a busy machine may take long over them.
TEST_WITHIN ?= 40m

# How long the long tests run. SIM_FOR (such as 10m) counts time instead of seeds.
SIM_SEEDS ?= 10000
SIM_FOR   ?=
FUZZ_FOR  ?= 30s
SOAK_FOR  ?= 5m
SOAK      ?=

# The benchmarks of make microbench, and how often they run.
ROUNDS    ?= 6
BASE      ?=
MICRO     := $(GO) test -run '^$$' -bench . -benchtime 500ms ./cache ./journal ./proxy ./internal/wire ./proof/load

# Only the race detector needs a C compiler.
export CGO_ENABLED ?= 0

# Go leaves the paths of this machine out of the program. So all clones share one build cache, and a
# release needs not compile again what a build or the tests have compiled.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Start the daemon on its embedded upstream, with its data in .run
	$(BIN) serve --upstream embedded --data-dir $(RUN_DIR)

.PHONY: build
build: ## Build bin/botwired
	@[ -e $(BIN) ] || echo "The first build compiles some 250 packages, which takes minutes on a small machine. Later ones take seconds."
	$(GO) build $(if $(wildcard $(BIN)),,-v) -ldflags "-X github.com/botwired/botwired/internal/build.version=$(VERSION)" -o $(BIN) ./cmd/botwired

.PHONY: man
man: ## Write the manual pages into bin/man/man1
	$(GO) test -count=1 -run '^TestManualPages$$' ./cmd/botwired -man $(CURDIR)/bin/man/man1

# The packages in which nothing is concurrent: the race detector would take minutes and find nothing.
UNRACED := config|docs|internal/(child|doctor|drill|guard|hashtable|httplog|load|mcpconfig|sse|trace|via|wire|words)
UNRACED := $(UNRACED)|journal/internal/(pending|record|recovery)|proxy/(dashboard|openapi)
UNRACED := $(UNRACED)|proof/(balance|bench|cost|day|dist|faults|loopback|machine|marked|mutants|rules|soak|wiretest)
# The tests of the other packages that live a whole day, an outage or a drain of thousands of entries in virtual time,
# or measure; those of one caller after the other that fill a journal with thousands of entries, list it again
# and again, cut a start at each change, or damage one file after the other, a byte at a time; those of one command
# after the other; and those of whole processes, which are built without it. The race detector makes each of them up
# to sixty times as slow, and others of the same package do the same at once.
UNRACED_TESTS := TestRecoveryIsBounded|TestAQuotaLastsTheDay|TestADrainTakesLittleMoreThanItMust|TestATaskIsSmall
UNRACED_TESTS := $(UNRACED_TESTS)|TestConcurrencyIsWhatUpstreamTakes|TestConcurrencyHalvesWhenRequestsTimeOut
UNRACED_TESTS := $(UNRACED_TESTS)|TestConcurrencyDoesNotFallWhereUpstreamIsSlow|TestABusyKeyIsSentAmidOthers
UNRACED_TESTS := $(UNRACED_TESTS)|TestUpstreamHoldsTheNewestSoonAfterItsReturn|TestOutageOfHoursAndRecovery
UNRACED_TESTS := $(UNRACED_TESTS)|TestCallersHoldUpNoOtherEntry|TestThreeHostsOverABucket
UNRACED_TESTS := $(UNRACED_TESTS)|TestTwoDaemonsOfOneQuotaWaitAfterARefusal|TestANamespaceThatWasAloneLeavesRoom
UNRACED_TESTS := $(UNRACED_TESTS)|TestBusyNamespacesShareEqually|TestUpstreamsFailures
UNRACED_TESTS := $(UNRACED_TESTS)|TestTheLaterWriteWinsByAnyClock|TestAThousandConflicts
UNRACED_TESTS := $(UNRACED_TESTS)|TestMergesForTombstonesAreFew|TestEveryDamageIsNoticed|TestDamagedTablesInUse|TestDamageTable
UNRACED_TESTS := $(UNRACED_TESTS)|TestEveryDamageIsRecoveredFrom|TestEveryFaultOfALayoutIsNoticed
UNRACED_TESTS := $(UNRACED_TESTS)|TestADamagedByteInALogLosesOneWrite|TestReceiptsBesideDamagedOnes
UNRACED_TESTS := $(UNRACED_TESTS)|TestCreationCutOff|TestStartCutOff|TestLogWithRoomLeft|TestIdleJournalWritesNothing
UNRACED_TESTS := $(UNRACED_TESTS)|TestReceiptsAreBounded|TestVersionsOfRemovedCopiesAreHistory
UNRACED_TESTS := $(UNRACED_TESTS)|TestMaintainBoundsTheHistory|TestPendingListOfRandomStates
UNRACED_TESTS := $(UNRACED_TESTS)|TestFullDiskGivesUpCopies|TestFullDiskGivesUpCopiesDuringAnOutage
UNRACED_TESTS := $(UNRACED_TESTS)|TestFullDiskGivesUpReceipts|TestFullDiskGivesBackWhatIsDrained
UNRACED_TESTS := $(UNRACED_TESTS)|TestFullDiskWithNothingToGiveUp|TestProcess|TestUnsampledHitsAllocateNothing
UNRACED_TESTS := $(UNRACED_TESTS)|TestAListingKeepsTheOrderOfTheWrites|TestListingsArePaced|TestCountingIsBounded
UNRACED_TESTS := $(UNRACED_TESTS)|TestNamespacesInUseAreBounded|TestExportTakesLittleMemory
UNRACED_TESTS := $(UNRACED_TESTS)|TestRestoreOfMoreThanUpstreamLists
UNRACED_TESTS := $(UNRACED_TESTS)|TestDirectoryIsOfItsUpstream|TestDirectoryOfACluster|TestExamplesParse
UNRACED_TESTS := $(UNRACED_TESTS)|TestHelpFitsTheTerminal|TestCommandsReadTheirSettings
UNRACED_TESTS := $(UNRACED_TESTS)|TestMendingCutOff|TestPurgeCutOffAtEachStep|TestNewestStateOutlivesADamagedTable
UNRACED_TESTS := $(UNRACED_TESTS)|TestWhatIsBelievedGoneIsHistory|TestRestoreLeavesRoomForAgents
UNRACED_TESTS := $(UNRACED_TESTS)|TestImportHoldsNoFileInMemory|TestEveryAnswerFitsAndReadingOnGivesAll
# Packages as go test takes them: those with concurrency, those without it, and those with the tests above.
RACED_ONES   = $$($(GO) list ./... | grep -vE '/($(UNRACED))$$')
UNRACED_ONES = $$($(GO) list ./... | grep -E '/($(UNRACED))$$')
PARTLY_RACED = $$(grep -rlE --include='*_test.go' '^func ($(UNRACED_TESTS))\(' . | xargs -n1 dirname | sort -u | grep -vE '/($(UNRACED))$$')

# APART=race leaves out what make race runs. The tests with NATS servers, a module of their own as those with
# Tink are, mostly wait,
# and so do those of whole processes: they run beside the others.
.PHONY: test
test: ## Run the tests
	@mkdir -p bin
	@(cd proof/tink && $(GO) test ./... && cd ../cluster && $(GO) test -timeout $(TEST_WITHIN) ./...) >bin/test-cluster.txt 2>&1 & cluster=$$!; \
	$(if $(filter race,$(APART)),$(GO) test -timeout $(TEST_WITHIN) -run '^($(UNRACED_TESTS))$$' $(PARTLY_RACED) >bin/test-apart.txt 2>&1 & apart=$$!;) \
	failed=0; $(GO) test -timeout $(TEST_WITHIN) $(if $(filter race,$(APART)),$(UNRACED_ONES),./...) || failed=1; \
	$(if $(filter race,$(APART)),wait $$apart || failed=1; cat bin/test-apart.txt;) \
	wait $$cluster || failed=1; cat bin/test-cluster.txt; exit $$failed

# QUICK is the commit to compare with. A package counts as changed if one of its files is, or a file beneath it that is
# no package's, such as testdata.
QUICK ?= main
.PHONY: quick
quick: ## Test the packages with changed files, and the rules: the tests of a minute
	@packages=$$(for file in $$(git diff --name-only $$(git merge-base HEAD $(QUICK)); git ls-files --others --exclude-standard); do \
		dir=$$(dirname $$file); until ls $$dir/*.go >/dev/null 2>&1 || [ $$dir = . ]; do dir=$$(dirname $$dir); done; \
		ls $$dir/*.go >/dev/null 2>&1 && echo ./$$dir; done | sort -u | grep -v '^./proof/\(cluster\|tink\)'); \
	$(GO) test -short -skip '^($(UNRACED_TESTS))$$' $$packages ./proof/rules

# The longest come first: each of them keeps little more than one processor busy, and none is left alone at
# the end.
RACE_FIRST := ./journal ./upstream/flush ./proof/sim ./proxy ./cmd/botwired
.PHONY: race
race: ## Run the tests of packages with concurrency under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_WITHIN) -skip '^($(UNRACED_TESTS))$$' $(RACE_FIRST) $(RACED_ONES)

# PAGE is a page's name, such as PAGE=quickstart: only that one is followed.
.PHONY: docs
docs: ## Follow README and docs/ to their ends, and check their links and names
	$(GO) test -count=1 ./docs -run '$(if $(PAGE),^TestPages$$/^$(PAGE)$$,.)'

.PHONY: reference
reference: ## Write the references of settings and commands in docs/ from the code
	$(GO) test -count=1 -run '^TestSettingsReference$$' ./config -reference
	$(GO) test -count=1 -run '^TestCommandReference$$' ./cmd/botwired -reference

.PHONY: lint
lint: $(LINT) ## Check format, vet and the linters' rules
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(LINT) run ./...
	cd proof/cluster && ../../$(LINT) run ./...
	cd proof/tink && ../../$(LINT) run ./...

$(LINT): tools/go.mod
	cd tools && $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: sim
sim: ## Simulate SIM_SEEDS lives of the daemon under faults, or as many as fit in SIM_FOR
	$(GO) test -count=1 -timeout 0 -run '^Test(Simulation|TwoHostsOfOneQuota|AnUpstreamThatLies)$$' ./proof/sim \
		$(if $(SIM_FOR),-sim.for=$(SIM_FOR),-rapid.checks=$(SIM_SEEDS) -sealed.rounds=$$(($(SIM_SEEDS) / 3)))

.PHONY: failures
failures: ## Play every failure of upstream's, and write proof/sim/testdata/failures.md
	$(GO) test -count=1 -run '^TestUpstreamsFailures$$' ./proof/sim -sim.failures

.PHONY: linear
linear: ## Check SIM_SEEDS histories of callers at work all at once for linearizability
	$(GO) test -v -count=1 -timeout 0 -run '^TestLinear' ./proof/sim -linear.rounds=$(SIM_SEEDS)

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZ_FOR
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h '^func Fuzz' $$dir/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_FOR) $$dir; \
		done; \
	done

# The tests build the binary themselves. A test that needs strace, mounts or root skips
# without them, and says so.
.PHONY: faults
faults: build ## Test the binary on full and failing disks, under signals and clock jumps
	@command -v strace >/dev/null || [ "$$(uname -s)" != Linux ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace; } || \
		echo "strace is missing and cannot be installed: the tests of a failing disk will be skipped" >&2
	$(GO) test -tags faults -count=1 -timeout 20m -v ./proof/faults

.PHONY: quota
quota: ## Kill the binary amid 2,000 writes, with a quota of 60 a minute
	$(GO) test -tags faults -count=1 -v -run '^TestQuotaOfAProcess$$' ./proof/faults -quota.period=1m

# SOAK are further flags, such as -seed 7, or -think 10ms to leave the processors to other work.
.PHONY: soak
soak: build ## Live for SOAK_FOR with callers, kills, upstream's faults, and a disk that fills and damages the journal
	@$(GO) build -o bin/soak ./proof/soak
	@bin/soak -for $(SOAK_FOR) $(if $(SEALED),-sealed) $(SOAK)

# With SEALED=1, the daemons of make e2e, make mcp and make soak seal all namespaces. SEALED_TESTS restricts the tests
# of whole processes, and SEALED_ALSO what is made besides.
SEALED_ALSO ?= e2e mcp soak
.PHONY: sealed
sealed: export SEALED = 1
sealed: ## Run whole processes, clients and the soak with all namespaces sealed, and read all that goes upstream
	$(GO) test -count=1 -timeout $(TEST_WITHIN) -run '^TestProcess$$/$(SEALED_TESTS)' ./cmd/botwired -sealed
	$(if $(SEALED_ALSO),@$(MAKE) --no-print-directory $(SEALED_ALSO))

.PHONY: bin/tap
bin/tap:
	@$(GO) build -o $@ ./proof/canary/tap

# HOSTS are the daemons. FOR=10m kills the leader each minute for that long, PARTITION=5m cuts the network in
# two for that long, and UP=1 only starts the servers. CLUSTER are further flags, such as -think 10ms.
.PHONY: cluster
cluster: build ## Live with daemons over three NATS servers that are killed, cut off and lose their disks
	@cd proof/cluster && $(GO) build -o ../../bin/cluster ./trial
	@bin/cluster $(if $(UP),-up) $(if $(HOSTS),-hosts $(HOSTS)) $(if $(FOR),-for $(FOR)) $(if $(PARTITION),-partition $(PARTITION)) $(CLUSTER)

# SCALE are the flags, such as -quick.
.PHONY: scale
scale: build ## Measure botwired over three NATS servers and over BotWire's SQLite, and write docs/scale.md's table
	@cd proof/cluster && $(GO) build -o ../../bin/scale ./scale
	@bin/scale -page docs/scale.md $(SCALE)

# ONLY is a regular expression, such as '8: .*listing': only those rows.
.PHONY: mutants
mutants: ## Take out the guards of the contract, one at a time, and see a test fail
	@$(GO) run ./proof/mutants $(if $(ONLY),-run '$(ONLY)')

# ROOT is another tree, such as a worktree of an older commit.
.PHONY: balance
balance: ## Print how much there is of botwired beside its budget; ROOT=DIR for another tree
	@$(GO) run ./proof/balance $(if $(ROOT),-root '$(ROOT)')

.PHONY: sweep
sweep: ## Fail every file operation of a scenario in turn, and cut the power at each
	$(GO) test -tags sweep -count=1 -run Sweep ./journal

.PHONY: damages
damages: ## Damage journals as kills leave them 10,000 times, and see what finds each
	$(GO) test -count=1 -v -run '^TestDamageTable$$' ./journal -damages=10000 -damages.seed=$$$$

.PHONY: benchcheck
benchcheck: ## Try each measurement of make bench, for as short a time as possible
	$(GO) test -count=1 -timeout $(TEST_WITHIN) -tags nightly -run '^TestQuickRuns$$' ./proof/bench

# What is long, or asks much of the network. It goes on after a failure, and ends with a list of them.
NIGHTLY := test damages benchcheck e2e adapters gateways openapi shells promtool manifests distcheck cluster soak sealed sim linear fuzz mutants
.PHONY: nightly
nightly: export SOAK_FOR = 30m
nightly: ## Run what is too long for each change: all clients, releases, the cluster, the soak, the mutants
	@failed=; for target in $(NIGHTLY); do \
		echo "== make $$target"; $(MAKE) --no-print-directory $$target || failed="$$failed $$target"; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }; echo "passed: $(NIGHTLY)"

# proof/bench/doc.go says what bench compares, and how. BENCH are its flags, such as
# -rounds 9, -only GET, or -quick. Without Redis and nginx, the tables lack their rows.
.PHONY: bench
bench: build ## Measure botwired beside Redis, nginx, net/http, a TCP echo and upstream; BENCH=-quick to try it
	@{ command -v redis-server && command -v nginx; } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server nginx-light; } >&2 || \
		echo "redis-server or nginx is missing and cannot be installed: the tables will lack it" >&2
	@$(GO) build -o bin/bench ./proof/bench
	@bin/bench $(BENCH)

# The agent is BotWire's own Python SDK, in the virtual environment of make e2e. CONVERSATION are the
# flags, such as -messages 50 or -outage 10s.
.PHONY: conversation
conversation: build ## Hold a conversation directly and through botwired, and draw docs/conversation.svg
	@$(GO) build -o bin/bench ./proof/bench
	@proof/venv .venv proof/e2e/requirements.txt
	@bin/bench conversation -python .venv/bin/python $(CONVERSATION)

.PHONY: reports
reports: build ## Replay reports about slow, dead and half-dead memories, directly and through botwired
	@proof/venv .venv proof/e2e/requirements.txt
	@.venv/bin/python proof/reports/run

# DAY are further flags, such as -day.seed=2. Fewer agents or hours are for trying it: README says 1,000 and 24.
DAY_AGENTS ?= 1000
DAY_HOURS  ?= 24
.PHONY: day
day: ## Simulate a day of 1,000 agents, directly and through botwired, and write README's table of it
	@mkdir -p bin
	$(GO) test -count=1 -timeout 0 -run '^TestDay$$' -v ./proof/day -day.agents=$(DAY_AGENTS) -day.hours=$(DAY_HOURS) -day.dir=$(CURDIR)/bin \
		$(if $(filter 1000-24,$(DAY_AGENTS)-$(DAY_HOURS)),-day.write) $(DAY)

# HISTORIES are the flags, such as -only langchain,openai-agents or -messages 50.
.PHONY: histories
histories: build ## Hold a conversation with each history adapter, and write docs/performance.md's table
	@$(GO) build -o bin/bench ./proof/bench
	$(FRAMEWORKS)
	@bin/bench histories -python clients/python/.venv-frameworks/bin/python -page docs/performance.md $(HISTORIES)

# With BASE, a commit, it runs both in turns and compares them.
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

.PHONY: promtool
promtool: build ## Check the alert rules and the daemon's metrics with Prometheus' own tool
	@command -v promtool >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus; } >&2
	@deploy/check

.PHONY: units
units: build ## Check the units of systemd and launchd with systemd's own tool and a parser
	@{ command -v systemd-analyze && command -v python3; } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd python3; } >&2
	@deploy/units

# Needs root. The container of the first run takes half a minute more; it is kept in bin/systemd.
.PHONY: systemd
systemd: build ## Follow docs/service.md under a systemd in a container, and restart the daemon under callers at work
	@proof/service/run

# SCENARIO are words of the scenarios' names: only those run.
.PHONY: manifests
manifests: build $(TOOLS)/manifests ## Check the files in deploy/ for containers, and run those as Docker and Kubernetes would
	proof/manifests/run $(SCENARIO)

$(TOOLS)/manifests: $(wildcard tools/manifests/*)
	cd tools/manifests && $(GO) build -o ../../$@ .

# Each target installs what it lacks. This is for those who would wait for one after the other.
FRAMEWORKS = @proof/venv clients/python/.venv-frameworks clients/python/tests/adapters/frameworks.txt
CREWAI     = @proof/venv clients/python/.venv-crewai clients/python/tests/adapters/crewai.txt
HERMES     = @proof/venv clients/python/.venv-hermes clients/python/tests/adapters/hermes.txt
# It installs a folder's package-lock.json, unless that is installed.
NODE_MODULES = cd $(1) && { cmp -s package-lock.json node_modules/installed.json || { npm ci --no-audit --no-fund --loglevel=error && \
	cp package-lock.json node_modules/installed.json; }; }
.PHONY: clients
clients: ## Install what .ci/run takes from PyPI and npm
	@proof/venv clients/python/.venv clients/python/requirements.txt
	@proof/e2e/run prepare botwire
	@proof/mcp/run prepare
	@proof/page/run prepare
	@$(call NODE_MODULES,clients/node/test/types)

# CLIENT are words of the client's name and the case's, such as "langchain outage": only those run.
.PHONY: e2e
e2e: $(if $(SEALED),bin/tap) ## Run BotWire's own clients and all examples against the daemon, amid outages and kills
	proof/e2e/run $(CLIENT)

# PYTEST are further arguments of the tests, such as "-k restart".
.PHONY: node
node: build ## Test the npm package: the launcher, and the client against the daemon
	@{ command -v node && command -v npm && command -v python3; } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm python3; } >&2
	@$(call NODE_MODULES,clients/node/test/types)
	clients/node/test/types/node_modules/.bin/tsc -p clients/node/test/types
	node --test clients/node/test/*.test.js

.PHONY: python
python: build ## Check the Python package, and run it against the daemon
	@proof/venv clients/python/.venv clients/python/requirements.txt
	cd clients/python && .venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && \
		.venv/bin/python -m pytest $(PYTEST)

# Frameworks that exclude each other have an environment each.
.PHONY: adapters
adapters: build ## Check the packages' adapters and the provider for Hermes, and run them with the real frameworks; npm's package on Deno and Bun, too
	@cd proof/cluster && $(GO) build -o ../../bin/nats-server github.com/nats-io/nats-server/v2
	$(FRAMEWORKS)
	$(CREWAI)
	$(HERMES)
	clients/python/tests/adapters/run $(PYTEST)
	@$(call NODE_MODULES,clients/node/test/frameworks)
	clients/node/test/frameworks/run

.PHONY: gateways
gateways: build ## Update one entry through nginx and Apache, which compress answers and change their tags
	proof/e2e/gateways

.PHONY: shells
shells: build ## Complete command lines in bash, zsh and fish, with Tab
	proof/e2e/shells

# EXAMPLES is how many requests the fuzzer makes of each operation, and SEED what it begins with.
.PHONY: openapi
openapi: build ## Fuzz the daemon by its own OpenAPI document, and hold each answer against it
	proof/openapi/run

.PHONY: mcp
mcp: build $(if $(SEALED),bin/tap) ## Have the MCP clients and conformance tests of others use the daemon
	proof/mcp/run

# COST are flags, such as -only PUT, or -update -runs 20 to write the bounds from what is measured. On a
# machine that does not permit ptrace, -objects counts the allocations alone.
.PHONY: cost
cost: ## Count what a request allocates and its system calls, and hold them against docs/performance.md
	@command -v strace >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace; } >&2
	@$(GO) build -o bin/cost ./proof/cost
	@bin/cost $(COST)

# PAGE are words of the scenarios' names: only those run.
.PHONY: page
page: build ## Drive the dashboard in headless Chromium; screenshots in bin/page
	proof/page/run $(PAGE)

.PHONY: vendored
vendored: ## Compare the dashboard's files of others with npm's
	proof/page/vendored

# DIST_PLATFORMS are the platforms, such as "linux/amd64 darwin/arm64". A platform for which nothing
# is compiled yet takes minutes.
.PHONY: dist
dist: ## Write the release into bin/dist: archives, packages, SBOMs, checksums; DIST_PLATFORMS restricts it
	@$(GO) build -o $(TOOLS)/dist ./proof/dist
	@$(TOOLS)/dist pack $(if $(DIST_PLATFORMS),-platforms "$(DIST_PLATFORMS)")

# DIST=-cold gives the second build an empty cache. The emulator starts the program of linux/arm64.
.PHONY: distcheck
distcheck: $(BOMCHECK) $(WHEELHOUSE)/made ## Pack two clean clones, compare the bytes, and use archive and packages as new users would
	@case "$(or $(DIST_PLATFORMS),linux/arm64)" in *linux/arm64*) command -v qemu-aarch64-static >/dev/null || [ "$$(uname -sm)" != "Linux x86_64" ] || \
		[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user-static; } >&2 || \
		echo "qemu-user-static is missing and cannot be installed: the program of linux/arm64 will not be started" >&2;; esac
	@{ command -v node && command -v npm; } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; } >&2
	@$(GO) build -o $(TOOLS)/dist ./proof/dist
	@$(TOOLS)/dist check -bomcheck $(BOMCHECK) -python $(PACKAGING) -wheelhouse $(WHEELHOUSE) $(if $(DIST_PLATFORMS),-platforms "$(DIST_PLATFORMS)") $(DIST)

$(BOMCHECK): tools/go.mod tools/bomcheck/main.go
	cd tools && $(GO) build -ldflags "-X main.toolsDir=$$PWD" -o ../$(BOMCHECK) ./bomcheck

# What the packages are tried with, and the wheels that they need: distcheck itself has no network.
$(WHEELHOUSE)/made: proof/dist/wheelhouse.txt proof/dist/requirements.txt
	@proof/venv $(PACKAGING) proof/dist/requirements.txt
	@rm -rf $(WHEELHOUSE)
	@$(PACKAGING)/bin/python -m pip download --quiet --disable-pip-version-check --no-deps -d $(WHEELHOUSE) -r proof/dist/wheelhouse.txt
	@touch $@

# It needs GitHub's gh, and a token in GH_TOKEN. The notes are the version's part of CHANGELOG.md.
.PHONY: publish
publish: ## Publish bin/dist as the release of the tag that is checked out
	@tag=$$(git describe --tags --exact-match) && mkdir -p bin && \
		awk -v begin="## [$${tag#v}]" 'index($$0, begin) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md >bin/notes.md && \
		{ [ -s bin/notes.md ] || { echo "CHANGELOG.md has no part \"## [$${tag#v}]\"" >&2; exit 1; }; } && \
		gh release create "$$tag" bin/dist/* --verify-tag --title "botwired $${tag#v}" --notes-file bin/notes.md

# It needs a token in UV_PUBLISH_TOKEN, or a workflow that PyPI trusts. It leaves out what is there.
.PHONY: pypi
pypi: $(WHEELHOUSE)/made ## Publish the wheels of bin/dist on PyPI
	@git describe --tags --exact-match >/dev/null
	$(PACKAGING)/bin/uv publish --check-url https://pypi.org/simple/ bin/dist/*.whl

# It needs npm 11.5 and a token in npm's configuration, or a workflow that npm trusts. It leaves out what is there.
.PHONY: npm
npm: ## Publish the npm packages of bin/dist on npm
	@git describe --tags --exact-match >/dev/null
	proof/dist/publish-npm bin/dist

.PHONY: workflows
workflows: $(ACTIONLINT) ## Check the workflows of .github with actionlint
	$(ACTIONLINT) -shellcheck= -pyflakes=

# A module of its own: it and golangci-lint need different releases of one module.
$(ACTIONLINT): tools/actionlint/go.mod
	cd tools/actionlint && $(GO) build -o ../../$(ACTIONLINT) github.com/rhysd/actionlint/cmd/actionlint

.PHONY: clean
clean: ## Remove the builds, and the data of make run
	rm -rf bin $(RUN_DIR) .venv .e2e clients/python/.venv* clients/node/test/*/node_modules proof/page/node_modules proof/e2e/node_modules examples/*/node_modules
