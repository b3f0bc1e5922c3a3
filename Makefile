# People and CI run the same targets.

SHELL := /bin/bash
SWIFT ?= swift
# What programs and tests are built with here: debug builds without debug information, nearly a third less to compile.
# `make build-tests BUILD_FLAGS=` builds what a debugger can read.
BUILD_FLAGS ?= -debug-info-format none
# So that two builds give the same bytes: sources are named from the top of the checkout, and no object has a hash for the next
# incremental build (.swift_modhash).
RELEASE_FLAGS := -c release --static-swift-stdlib -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=. \
  -Xcc -ffile-prefix-map=$(CURDIR)=. -Xcxx -ffile-prefix-map=$(CURDIR)=. \
  -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen
PACKAGES := libcurl4-openssl-dev libjansson-dev libpq-dev libsqlite3-dev libssl-dev libyaml-dev pkg-config tzdata
# Used by the tests: an independent check of signatures, a count of fsyncs, a database for the SQL in samples, a browser for
# the support page, and what the examples of the pages use.
TEST_PACKAGES := curl openssl strace postgresql libpq-dev chromium-driver chromium-headless-shell jq sqlite3 python3 \
  python3-yaml
# What the fault suite breaks things with: a file system in a file, and faults of system calls; and what a receiver of webhooks
# is written in.
FAULT_PACKAGES := e2fsprogs mount python3 python3-venv strace
FUZZ_PACKAGES := python3 python3-venv
# Apple's own library, from PyPI: the judge of the simulator, and of forwarded notifications.
APPLE_LIBRARY := app-store-server-library==3.1.2
SITE_PACKAGES := jq python3 python3-venv
# The Debian package and its checks; what samples/ has for operators is checked by the programs that read it.
DEB_PACKAGES := adduser binutils dpkg-dev
# The image of a release, without a container engine.
RELEASE_PACKAGES := $(DEB_PACKAGES) git mmdebstrap python3
DEB_CHECK_PACKAGES := init-system-helpers lintian procps systemd systemd-container util-linux
SAMPLE_CHECK_PACKAGES := curl openssl python3 python3-venv python3-yaml systemd
# The client for JavaScript: TypeScript, and React with its types. Deno comes from PyPI, with a newer TypeScript in it.
JAVASCRIPT_PACKAGES := node-react node-react-dom node-typescript python3 python3-venv
FAULT_LOG := .build/faults.log
# Load, certificates and requests for the benchmarks.
BENCH_PACKAGES := curl openssl postgresql python3 strace util-linux wrk

.PHONY: help demo test test-postgresql build-tests bench-check checks app-package-check javascript-check javascript-deps apple-library-check apple-library-deps docs site site-deps prometheus-deps cases fuzz faults cost bench \
  build release release-all release-check deb deb-check package-check lint format image-check deps test-deps clean

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

demo: deps ## Start a simulated App Store and the service, post one receipt per scenario, show the verdicts
	$(SWIFT) build $(BUILD_FLAGS) --product countersign
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@.build/debug/countersign demo

test: build-tests ## Run every test, and build an app that uses CountersignClient
	@SWIFT=$(SWIFT) scripts/run-tests

test-postgresql: build-tests ## Run the tests of the ledger, the figures and the service on PostgreSQL (12 minutes)
	@COUNTERSIGN_TEST_ENGINE=postgresql scripts/run-tests --filter '^(FiguresTests|LedgerTests|CountersignTests)\.' --skip 'FaultTests'

build-tests: test-deps ## Build every test
	$(SWIFT) build $(BUILD_FLAGS) --build-tests

app-package-check: ## Build an app that uses CountersignClient, and fail where another package is resolved
	@SWIFT=$(SWIFT) scripts/check-app-package

javascript-check: deps javascript-deps ## Install the client for JavaScript from its package, check its types, and run it
	$(SWIFT) build $(BUILD_FLAGS) --product countersign
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@scripts/check-javascript

javascript-deps:
	@scripts/install-packages $(JAVASCRIPT_PACKAGES)
	@[ -x .build/javascript/bin/deno ] || { python3 -m venv .build/javascript \
	  && .build/javascript/bin/pip install --quiet --disable-pip-version-check deno==2.9.8; }

apple-library-check: deps apple-library-deps ## Drive the simulator with Apple's App Store Server Library, every scenario and endpoint
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@.build/apple-library/bin/python3 scripts/check-apple-library

apple-library-deps:
	@scripts/install-packages $(FUZZ_PACKAGES)
	@.build/apple-library/bin/pip show --quiet app-store-server-library 2>/dev/null || { python3 -m venv .build/apple-library \
	  && .build/apple-library/bin/pip install --quiet --disable-pip-version-check $(APPLE_LIBRARY); }

# The steps of the image run with a binary of the tests' build in the place of the release build, which alone takes as long as
# everything else: `make image-check` runs all of them. Deno, MkDocs and Apple's library come from PyPI: where that cannot be
# reached, their part is left out, and said.
checks: build-tests ## Check the pages, the site, samples, the package for JavaScript, the simulator and the image's steps
	scripts/check-image .build/debug/countersign
	scripts/check-docs
	if $(MAKE) --no-print-directory site-deps; then scripts/make-site "$$(scripts/version)"; else echo 'left out: MkDocs cannot be installed'; fi
	$(MAKE) --no-print-directory prometheus-deps || echo 'left out: promtool cannot be installed'
	scripts/check-samples
	$(MAKE) --no-print-directory javascript-deps || echo 'left out: Deno cannot be installed'
	scripts/check-javascript
	if $(MAKE) --no-print-directory apple-library-deps; then .build/apple-library/bin/python3 scripts/check-apple-library; else echo "left out: Apple's library cannot be installed"; fi

docs: test-deps ## Run every shell example of README.md and docs, and follow every link
	$(SWIFT) build $(BUILD_FLAGS) --product countersign
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@scripts/check-docs

site: VERSION ?= $(shell scripts/version)
site: deps site-deps ## Build the site of the documentation, .build/site; VERSION=0.1.0 names its folder
	$(SWIFT) build $(BUILD_FLAGS) --target CountersignClient
	@scripts/make-site $(VERSION) $(SITE_PATH)

site-deps:
	@scripts/install-packages $(SITE_PACKAGES)
	@[ -x .build/mkdocs/bin/mkdocs ] || { python3 -m venv .build/mkdocs \
	  && .build/mkdocs/bin/pip install --quiet --disable-pip-version-check mkdocs==1.6.1 mkdocs-material==9.8.1; }

# Debian's package would start a Prometheus on this machine, so promtool is taken out of it.
prometheus-deps:
	@[ -x .build/prometheus/usr/bin/promtool ] || { mkdir -p .build/prometheus && cd .build/prometheus && rm -f *.deb \
	  && { apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; }; } \
	  && dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb; }

cases: build-tests ## Run the tests of random cases and of many users in full; `make test` tries a tenth of the cases or fewer
	@COUNTERSIGN_CASES=full scripts/run-tests --filter '^(AccessTests|EntitlementsTests|FiguresTests|ProfilesTests)\.|FigureOrderTests|GatheringVFSTests|CircuitTests|MutationTests|VerifyReceiptPlainTests|MissedNotificationsTests|ConsumptionTests|YearOfNotificationsTests|RandomReportsTests|LateRenewalTests|StolenPurchaseTests|StoredTextTests|SystemClockTests'

fuzz: deps apple-library-check ## Play the running service against openapi.yaml: a generated client, and requests that nobody thought of
	@scripts/install-packages $(FUZZ_PACKAGES)
	$(SWIFT) build $(BUILD_FLAGS) --product countersign
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@scripts/fuzz-contract

# One test after the other: each has the machine to itself. A planted mistake that goes unnoticed fails the run.
faults: test-deps ## Play the fault suite in full: kills, power cuts, broken disks, outages (25 minutes, as root)
	@scripts/install-packages $(FAULT_PACKAGES)
	@test -x .build/faults/bin/pip || python3 -m venv .build/faults
	@.build/faults/bin/pip install --quiet --disable-pip-version-check standardwebhooks==1.1.0 $(APPLE_LIBRARY)
	$(SWIFT) build $(BUILD_FLAGS) --build-tests
	@set -o pipefail; status=0; \
	PATH=$(CURDIR)/.build/faults/bin:$$PATH COUNTERSIGN_FAULTS=full $(SWIFT) test --skip-build --no-parallel --filter 'FaultTests|PowerCutTests' 2>&1 \
	  | tee $(FAULT_LOG) || status=$$?; \
	echo; echo "What was played, and what was planted:"; \
	grep -aE '^(faults|planted): ' $(FAULT_LOG) || status=1; \
	if grep -aE '^planted: .*: NOT CAUGHT$$' $(FAULT_LOG) >/dev/null; then \
	  echo "A planted mistake was not noticed: the suite is blind there."; status=1; \
	fi; \
	exit $$status

cost: test-deps ## Count allocations, system calls and bytes of a receipt; a tenth more than Benchmarks/cost.txt fails
	$(SWIFT) build $(BUILD_FLAGS) --product countersign
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@scripts/check-cost

bench-check: deps ## Compile the benchmarks, in a package of their own
	$(SWIFT) build $(BUILD_FLAGS) --package-path Benchmarks

# What is measured is what is deployed, so both programs are built as `release` does. The machine should have nothing else to
# do meanwhile. BENCH='--only reads' measures less.
bench: release ## Measure CPU, latency and memory beside what bounds them (45 minutes the first time)
	@scripts/install-packages $(BENCH_PACKAGES)
	$(SWIFT) build $(RELEASE_FLAGS) --product app-store-simulator
	$(SWIFT) build -c release --package-path Benchmarks
	@Benchmarks/.build/release/bench run --countersign .build/release/countersign \
	  --simulator .build/release/app-store-simulator --work .build/bench --output .build/bench/results.md $(BENCH)

build: deps ## Build for development
	$(SWIFT) build $(BUILD_FLAGS)

release: deps ## Build the binary that is deployed, .build/release/countersign, and its symbols, countersign.debug
	$(SWIFT) build $(RELEASE_FLAGS) --product countersign
	@scripts/install-packages binutils
	@scripts/strip-binary .build/release/countersign

release-all: ## Make every file of a release in .build/release-VERSION: make release-all VERSION=0.1.0
	@scripts/version "$(VERSION)"
	@$(MAKE) --no-print-directory release
	$(SWIFT) build $(RELEASE_FLAGS) --product app-store-simulator
	@scripts/install-packages $(RELEASE_PACKAGES)
	@scripts/make-release --countersign .build/release/countersign --simulator .build/release/app-store-simulator \
	  "$(VERSION)" ".build/release-$(VERSION)"

release-check: ## Install each of these files in an empty Debian, and post a receipt (as root): VERSION=0.1.0
	@scripts/check-release ".build/release-$(VERSION)"

deb: release ## Make a Debian package of it: .build/countersign_VERSION_ARCHITECTURE.deb
	@scripts/install-packages $(DEB_PACKAGES)
	@scripts/make-deb

deb-check: deb ## Install the package in a layer of its own, run, upgrade, remove and purge it (as root)
	@scripts/install-packages $(DEB_CHECK_PACKAGES)
	@set -e; for package in .build/countersign_*.deb; do scripts/check-deb "$$package"; done

# Caddy, nginx, kubectl and Node are used where they are, and not installed for it. CI runs the script without the schemas.
package-check: deps prometheus-deps ## Check what samples/ has for operators: systemd, compose, Kubernetes, alerts, proxies, a route service
	@scripts/install-packages $(SAMPLE_CHECK_PACKAGES)
	$(SWIFT) build $(BUILD_FLAGS) --product countersign
	$(SWIFT) build $(BUILD_FLAGS) --product app-store-simulator
	@[ -x .build/package-check/bin/kubernetes-validate ] || { python3 -m venv .build/package-check \
	  && .build/package-check/bin/pip install --quiet kubernetes-validate==1.37.0; }
	scripts/check-samples

lint: ## Check format, import rules, that one version stands everywhere, exact versions of dependencies, and tests' clocks
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests \
	  Benchmarks/Package.swift Benchmarks/Sources
	scripts/check-imports
	scripts/check-cycles
	@scripts/version "$$(scripts/version)"
	@if grep -rnE '(now|dueAt|receivedAt|recordedAt): at\(|(now|recordedAt) = at\(' Tests/LedgerTests Tests/FiguresTests Tests/LedgerFixtures; then \
	  echo 'Our own clock has nanoseconds: it is "clock". Dates of Apple are "at".'; exit 1; \
	fi
	@if grep -rnE '(now|start|clock)(: Date)? = Date\(timeIntervalSince1970: [0-9_]+\)$$|now: \{ Date\(timeIntervalSince1970: [0-9_]+\) \}' \
	  Tests/FiguresTests Tests/LedgerTests Tests/TokensTests Tests/ValidationTests; then \
	  echo 'A clock has nanoseconds: see "withNanoseconds".'; exit 1; \
	fi
	@if grep -HnE '\.package\(url:' Package.swift Benchmarks/Package.swift | grep -v 'exact: "'; then \
	  echo 'A dependency has to be named by its exact version, so that no build takes a release that nobody has seen.'; exit 1; \
	fi

format: ## Format in place
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests \
	  Benchmarks/Package.swift Benchmarks/Sources

image-check: deps ## Run the Dockerfile's build steps in a clean directory (10 minutes)
	scripts/check-image

deps: ## Install the Debian packages that are missing
	@scripts/install-packages $(PACKAGES)

test-deps: deps
	@scripts/install-packages $(TEST_PACKAGES)

clean: ## Remove everything that was built
	rm -rf .build Benchmarks/.build .hypothesis .schemathesis
