# Every target sets up what it needs and is quick the second time.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9

.PHONY: requirements matrix lies results results-list results-pages site setup setup-stores setup-servers test test-full test-fast landed fuzz demo wheel image bench lint lock clean help

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t16

# What the machine lacks is said in one list before anything is built. FOR=demo runs tests without what
# `demo` does not need.
FOR := demo
test: FOR := test
test-full: FOR := test-full
requirements: ## what this machine lacks, and the command that installs it: FOR=demo, test or test-full
	@PYTHON=$(PYTHON) scripts/requirements $(FOR)

$(BIN)/uv: | requirements
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)

$(VENV)/.demo: requirements/demo.lock | $(BIN)/uv
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r $<
	touch $@

# It has what demo.lock has.
$(VENV)/.installed: requirements/dev.lock | $(BIN)/uv
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r $<
	touch $(VENV)/.demo $@

# What the scripts of bench/ share.
BENCH_SHARED := delay_proxy harness memory_limit native_load python_clients table twin_stores
# `answers` takes four hours: make bench BENCH=answers
BENCH ?= $(sort $(filter-out $(BENCH_SHARED) answers,$(basename $(notdir $(wildcard bench/*.py)))))

ENGINE_SOURCES := $(shell find engine/src -name '*.rs') Cargo.toml Cargo.lock engine/Cargo.toml pyproject.toml

# From a wheel in dist/ whose engine has the same sources, else compiled.
$(VENV)/.built: $(ENGINE_SOURCES) | $(VENV)/.demo
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/python scripts/engine.py
	touch $@

# The packages of packages/, beside the engine's: what they need is in dev.lock.
PLUGINS := $(patsubst packages/%/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))
$(VENV)/.plugins: $(wildcard packages/*/pyproject.toml) | $(VENV)/.built
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps $(PLUGINS:%=-e packages/%)
	touch $@

setup: $(VENV)/.installed $(VENV)/.built $(VENV)/.plugins ## virtual environment, dependencies, compiled engine

setup-stores: setup ## environments of the stores that need one of their own (a library is compiled: minutes), or ENVIRONMENTS=docarray
	$(BIN)/python -m vectrial.util.environments $(ENVIRONMENTS)

setup-servers: setup ## programs of the servers that can be had here (some are built: minutes), or SERVERS="redis milvus"
	$(BIN)/python -m vectrial.stores $(SERVERS)

demo: $(VENV)/.built $(VENV)/.plugins ## measure real word vectors on embedded stores, and write the report
	$(BIN)/vectrial data fetch glove-words-50-20k
	$(BIN)/vectrial run suites/demo.toml

# Installed only where wheels are made: a compiler of 180 MB.
$(VENV)/.zig: requirements/wheel.lock | $(VENV)/.demo
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r $<
	touch $@

WHEEL_MACHINES ?= x86_64 aarch64
# The wheel of another machine needs Rust's standard library for it, which rustup fetches.
wheel: export VECTRIAL_ENGINE_SOURCES = $(shell $(PYTHON) scripts/engine.py --digest)
wheel: $(VENV)/.zig ## dist/: wheels (manylinux2014, x86_64 and aarch64) and an sdist
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	for plugin in $(PLUGINS); do $(BIN)/uv build --quiet --out-dir dist packages/$$plugin; done
	for machine in $(WHEEL_MACHINES); do \
		target=$$machine-unknown-linux-gnu; \
		if [[ $$machine != "$$(uname -m)" ]] && ! why=$$(rustup --quiet target add $$target 2>&1); then \
			echo "! no wheel for $$machine: rustup target add $$target: $$(head -1 <<< "$$why")" >&2; continue; fi; \
		PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --release --quiet --zig --target $$target \
			--compatibility manylinux2014 --interpreter $(BIN)/python --out dist || { \
			echo "! no wheel for $$machine: it does not compile" >&2; [[ $$machine != "$$(uname -m)" ]]; }; \
	done
	ls -l dist

ENGINE ?= docker
IMAGE ?= vectrial:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
image: ## a container image of the wheel in dist/, which `make wheel` puts there
	ls dist/vectrial-*_$$(uname -m).whl dist/vectrial_*.whl || { echo "no wheels for this machine in dist: make wheel" >&2; exit 2; }
	$(ENGINE) build --tag $(IMAGE) .

lock: | $(BIN)/uv ## pin everything again from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml packages/*/pyproject.toml --extra dev $(patsubst %,--no-emit-package %,vectrial $(PLUGINS)) --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/dev.lock
	$(BIN)/uv pip compile pyproject.toml requirements/demo.in --extra demo --no-emit-package vectrial --constraint requirements/dev.lock --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/demo.lock
	$(BIN)/uv pip compile requirements/wheel.in --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/wheel.lock
	cd packages/vectrial-reproduce/src/vectrial_reproduce/locks && for source in *.in; do \
	  $(abspath $(BIN))/uv pip compile $$source --python-version 3.11 --generate-hashes --no-header --quiet -o $${source%.in}.lock; done

matrix: setup ## docs/matrix.md: which experiment works on which store
	$(BIN)/python -m vectrial_reproduce.reports.matrix > docs/matrix.md.new && mv docs/matrix.md.new docs/matrix.md

lies: setup ## docs/lies.md: every lie that a store of the tests tells, and the check that catches it
	$(BIN)/python tests/support/lies.py > docs/lies.md.new && mv docs/lies.md.new docs/lies.md

results: setup $(if $(ONLY),,setup-stores setup-servers) ## measure stale committed results again (days), or ONLY="demo servers"; goes on where it stopped
	$(BIN)/python -m vectrial_reproduce.reports.results docs/results $(addprefix --only ,$(ONLY)) $(RESULTS_OPTIONS)

results-list: setup ## every committed result with revision, date, duration and machine; ONLY, RESULTS_OPTIONS="--stale"
	$(BIN)/python -m vectrial_reproduce.reports.results docs/results --list $(addprefix --only ,$(ONLY)) $(RESULTS_OPTIONS)

results-pages: setup ## pages of every committed bundle and reproduction in docs/results, and docs/claims.md
	$(BIN)/python -m vectrial.report.pages docs/results
	$(BIN)/python -m vectrial_reproduce.reports.committed docs/results docs/claims.md

SITE ?= site
site: setup ## static pages of every committed run, in SITE (a folder, "site" unless given)
	$(BIN)/vectrial site docs/results --title "Vectrial: committed results" --out $(SITE)

clean: ## remove what was built here (datasets stay in the cache)
	rm -rf $(VENV) target dist python/vectrial/_engine*.so

lint: setup ## ruff, mypy strict, the direction of imports, lines by package, rustfmt, clippy with warnings as errors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python scripts/budget.py > /dev/null
	$(BIN)/python scripts/sentences.py
	cargo fmt --all --check
	cargo clippy --all-targets --quiet -- -D warnings

# Tests start hundreds of processes. Without Python's cache, which some containers turn off, each
# compiles every module that it imports.
test test-full test-fast setup-servers: export PYTHONDONTWRITEBYTECODE :=

test-fast: setup ## the tests that need no server and no browser, and are not slow
	$(BIN)/python -m pytest -q -n $(or $(TEST_PROCESSES),3) -m "not server and not browser and not slow"

# Three processes on two cores: much of a test's time is waiting for a server or for another process.
# A test that fails beside others runs once more with the machine to itself, and that decides; one
# that passes then is named at the end.
PYTEST = $(BIN)/python -m pytest -n $(or $(TEST_PROCESSES),3)
ALONE = { test $$? -eq 1 \
	&& echo "== the tests that failed, once more, with nothing beside them" \
	&& $(BIN)/python -m pytest -x --alone --last-failed --last-failed-no-failures none; }

test: setup ## cargo test and pytest, as far as the change since origin/main can break something
	engine="$$($(BIN)/python tests/support/changes.py --engine)"; \
	if [[ $$engine ]]; then PYO3_PYTHON=$(abspath $(BIN))/python $$engine --quiet; \
	else echo "left out: cargo test, since nothing of the engine changed"; fi
	$(BIN)/python tests/support/changes.py --fetch
	$(PYTEST) --changed || $(ALONE)

# Programs first: a test has ten minutes, and a slow machine needs as long to build one.
test-full: setup setup-stores setup-servers ## cargo test and all of pytest, on every kind of server that can be had here
	PYO3_PYTHON=$(abspath $(BIN))/python cargo test --quiet
	VECTRIAL_EVERY_CASE=1 $(PYTEST) || $(ALONE)

landed: setup ## at the beginning of a change: .ci/landed names the commit that it starts from, and the next quarter
	$(BIN)/python tests/support/changes.py --landed

SECONDS ?= 10
fuzz: setup ## every decoder against bytes that a fuzzer makes up, SECONDS each (needs a nightly toolchain)
	$(BIN)/python fuzz/run.py --seconds $(SECONDS)

bench: setup ## every script in bench/, ratios in one run (2 hours), or BENCH="serve truth"; figures in docs/benches.md
	rm -f bench/latest.jsonl
	for script in $(BENCH); do \
		echo "== $$script"; $(BIN)/python bench/$$script.py --jsonl bench/latest.jsonl; done
	$(BIN)/python bench/table.py bench/latest.jsonl docs/benches.jsonl docs/benches.md
