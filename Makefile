# Chronica. `make` lists what there is; every target sets up first what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Python that truly runs and is one that every wheel exists for. A name on the PATH is
# not enough: version managers leave names there that only print an error.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11 python3.14 python3 python,\
  $(shell $(name) -c '$(SUPPORTED)' >/dev/null 2>&1 && echo $(name))))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.chronica-ready
LOCK_VENV := build/lock-venv
BENCH_VENV := build/bench-venv
BENCH_STAMP := $(BENCH_VENV)/.chronica-ready

# Everything that pyproject.toml asks for, besides the project itself, as one list.
define LOCK_INPUT
import tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
wanted = ["editables", *project["build-system"]["requires"], *project["project"]["dependencies"]]
for group in project["project"]["optional-dependencies"].values():
    wanted += group
wanted += project["dependency-groups"]["dev"]
print(*(name for name in wanted if not name.startswith("chronica[")), sep="\n")
endef
export LOCK_INPUT

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# A Python that is named must be one of them, also where .venv is there already.
ifneq ($(filter command line environment,$(origin PYTHON)),)
ifeq ($(shell $(PYTHON) -c '$(SUPPORTED)' >/dev/null 2>&1 && echo yes),)
$(error Chronica needs Python 3.11 to 3.14, and $(PYTHON) is not one of them)
endif
endif

.PHONY: setup
setup: $(STAMP) ## Make .venv with all pinned packages, and fetch and verify Kafka's jars
	@$(BIN)/python -m chronica.infra.embedded

# A .venv whose Python is gone, or that was moved or copied here, is no longer one.
ifneq ($(shell $(BIN)/python -c '$(SUPPORTED)' >/dev/null 2>&1 && cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): FORCE
endif
.PHONY: FORCE
FORCE:

# The stamp says "making" until all is installed, so a set-up that was cut off starts anew, from an
# empty .venv. A .venv without a stamp is somebody's own: it is kept, and completed.
$(STAMP): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c '$(SUPPORTED)' >/dev/null 2>&1; then \
	  found="$$(v="$$($(or $(PYTHON),python3) --version 2>/dev/null | head -n 1)"; echo "$${v:-none}")"; \
	  echo "Chronica needs Python 3.11 to 3.14 (found: $$found): install one of them, or name it:" \
	    "make setup PYTHON=/path/to/python3.13" >&2; \
	  exit 1; \
	fi
	@if ! $(PYTHON) -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  echo "$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv), then" \
	    "run make setup again." >&2; \
	  exit 1; \
	fi
	@if [ "$$(cat $(STAMP) 2>/dev/null || echo "$(CURDIR)")" != "$(CURDIR)" ] || \
	  ! $(BIN)/python -c '$(SUPPORTED)' >/dev/null 2>&1 || \
	  ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "Making $(VENV) with $$($(PYTHON) --version) ..."; \
	  rm -rf $(VENV); \
	  mkdir $(VENV); \
	  echo making > $(STAMP); \
	  $(PYTHON) -m venv $(VENV); \
	fi
	@echo making > $(STAMP)
	@echo "Installing the pinned packages ..."
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on \
	  --require-hashes -r requirements.lock || { \
	  echo "The pinned packages could not be installed: see pip's message above; check the network" \
	    "and the free disk space, then run make setup again." >&2; exit 1; }
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation \
	  --editable .
	@echo "$(CURDIR)" > $(STAMP)

.PHONY: demo
demo: setup ## Start everything, record a sample conversation, show a context window, stop
	@$(BIN)/chronica demo

.PHONY: run
run: setup ## Start everything and serve until Ctrl-C
	@$(BIN)/chronica up

.PHONY: test
test: setup ## Run all tests
	@$(BIN)/pytest

.PHONY: check
check: setup ## Lint, check formats, types, the direction of imports, and the layout
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest -q tests/unit/test_layout.py

.PHONY: soak
soak: setup ## Run the long tests with their full counts
	@CHRONICA_SOAK=1 $(BIN)/pytest -m soak

.PHONY: bench
bench: setup $(BENCH_STAMP) ## Measure against peers and limits: a table, and build/bench.json
	@$(BIN)/python -m tests.benchmarks

# Without it the rows against quixstreams say why they are empty, and all others are there.
$(BENCH_STAMP): requirements-bench.lock
	@echo "Installing the peers of the benchmarks ..."
	@rm -rf $(BENCH_VENV)
	@{ $(BIN)/python -m venv $(BENCH_VENV) && \
	  $(BENCH_VENV)/bin/python -m pip install --disable-pip-version-check --quiet \
	  --require-hashes -r requirements-bench.lock && touch $@; } || { rm -rf $(BENCH_VENV); \
	  echo "They could not be installed: see pip's message above." >&2; }

.PHONY: lock
lock: setup ## Pin anew: Python packages (requirements*.lock) and jars (*.lock beside their code)
	@test -x $(LOCK_VENV)/bin/uv || { $(PYTHON) -m venv $(LOCK_VENV) && \
	  $(LOCK_VENV)/bin/python -m pip install --disable-pip-version-check --quiet uv; }
	@$(BIN)/python -c "$$LOCK_INPUT" | $(LOCK_VENV)/bin/uv pip compile - --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --quiet \
	  --custom-compile-command 'make lock' --output-file requirements.lock
	@$(LOCK_VENV)/bin/uv pip compile --group bench --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --quiet \
	  --custom-compile-command 'make lock' --output-file requirements-bench.lock
	@$(BIN)/python -m chronica.infra.embedded lock
	@$(BIN)/python -m tests.benchmarks.jars
