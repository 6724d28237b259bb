# decklog. `make` alone lists the targets.

GO        ?= go
BIN       := bin
RELEASE   ?= dev
LDFLAGS   := -s -w -X main.release=$(RELEASE)
BUILD     := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'
FUZZTIME  ?= 20s

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the program into bin/
	@mkdir -p $(BIN)
	$(BUILD) -o $(BIN)/ ./cmd/...

.PHONY: run
run: build ## play the main job: two sessions, one question, its answer, and the audit
	@$(GO) run ./internal/mainjob -program $(BIN)/decklog

.PHONY: test
test: lint ## pass every test, with processes, kill rounds and the race detector
	$(GO) test -race -timeout 60m ./...
	$(GO) test -tags faults,testclock -timeout 10m ./internal/faults

.PHONY: faults
faults: ## break it in every way of internal/faults/README.md: kills, power cuts, disks that fail, wrong bits (15 minutes; root, FUSE, tmpfs)
	DECKLOG_FAULTS_ROUNDS=100 $(GO) test -tags faults,testclock -count 1 -timeout 60m -v ./internal/faults

.PHONY: check
check: lint ## pass the tests that start no processes and kill none
	$(GO) test -short -timeout 3m ./...

.PHONY: lint
lint: ## look at form and at what is probably wrong
	@test -z "$$(gofmt -l .)" || { echo 'not formatted:'; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags testclock ./cmd/... ./internal/clock/...
	$(GO) vet -tags faults,testclock ./internal/faults
	$(GO) tool staticcheck ./...

.PHONY: fuzz
fuzz: ## look for inputs that break the codec, the renderer, the hooks and the policy reader
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func (Fuzz[A-Za-z]+)' $$target/*_test.go | awk '{ print $$2 }'); do \
	    echo "$$target $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$target || exit 1; \
	  done; done

.PHONY: live
live: build ## try decklog on the real Claude Code, Codex, Gemini CLI and opencode, with no network and no model (npm, once 1.3 GB; LIVE='-keep' and the like)
	@$(GO) run ./internal/live -program $(BIN)/decklog $(LIVE)

.PHONY: vendor-tests
vendor-tests: ## have the vendor's own tests of its Go client try the protocol double, from the module cache (ports 2111 to 2115)
	@certs=$$(cd internal/esdbdouble/vendortests && $(GO) mod download && $(GO) list -m -f '{{.Dir}}' github.com/kurrent-io/KurrentDB-Client-Go)/certs/node1 && \
	$(GO) run ./internal/esdbdouble/cmd/double -insecure localhost:2114 -secure localhost:2115 -certs "$$certs" \
	  -cluster localhost:2111,localhost:2112,localhost:2113 sh internal/esdbdouble/vendortests/run.sh

.PHONY: node-check
node-check: ## have a Node client read from the protocol double what Go wrote, and the other way round (npm, 17 MB)
	@mkdir -p .run/node-check && cp internal/esdbdouble/nodecheck/* .run/node-check/
	@cd .run/node-check && npm ci --ignore-scripts --no-audit --no-fund --silent
	DECKLOG_NODE_CHECK=$(CURDIR)/.run/node-check $(GO) test -count 1 -run Node -v ./internal/esdbdouble

.PHONY: bench
bench: ## measure each promise of speed beside its reference (long; takes 5 GB; BENCH='-only REGEXP' and the like)
	@$(GO) run ./internal/bench $(BENCH)

.PHONY: clean
clean: ## remove what was built and played
	rm -rf $(BIN) .run
