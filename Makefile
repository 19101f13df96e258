# `make help` lists the targets. Everything runs from .venv, which `make setup` makes from the lock in requirements/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
STAMP := .venv/.set-up
SEEDS ?= 10000
EXAMPLES ?= 1
export TURNSTILE_EXAMPLES = $(EXAMPLES)
# Compiled modules are kept: every Lambda worker and test process would compile the libraries anew without them.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest
# One process more than cores, a file in one of them, files with slow tests first (tests/conftest.py): tests of fleets and of killed servers
# wait for four fifths of their time.
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
SPREAD := -n $(shell echo $$(( $(CORES) < 2 ? 2 : ($(CORES) < 8 ? $(CORES) + 1 : 8) ))) --dist loadfile --no-loadscope-reorder
# The quick tests wait for little.
SPREAD_QUICK := -n $(shell echo $$(( $(CORES) < 2 ? 2 : ($(CORES) < 8 ? $(CORES) : 8) ))) --dist loadfile --no-loadscope-reorder
# Two Spark sessions keep two cores busy. Each begins with one half of the tests, and at the end takes from what the other has left.
SPREAD_SPARK := -n $(shell echo $$(( $(CORES) < 4 ? 2 : ($(CORES) < 8 ? $(CORES) / 2 : 4) ))) --dist worksteal
# Kinds that test-quick leaves out whole; of the others it leaves out what is in tests/support/ci/long.py.
LONG := mutation clients iceberg journeys spark histories simulation
# Kinds that have tests with a Spark session, less slow ones.
SPARK := clients iceberg journeys spark
# The form and the words of the code, which are a part of make lint.
FORM := tests/repository/test_form.py tests/repository/test_words.py

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- use --------------------------------------------------------------------------------------------------------------

.PHONY: demo up down
demo: setup ## Five real tables, four writers, every kind of statement, checked against pandas
	$(BIN)/turnstile demo

up: setup ## Start a server in the background
	$(BIN)/turnstile up

down: ## Stop it
	$(BIN)/turnstile down

# -- set up -----------------------------------------------------------------------------------------------------------

.PHONY: setup lock clean
setup: $(STAMP) ## Make .venv from the lock and fetch Delta's packages; quick when nothing changed

$(STAMP): requirements/setup requirements/dev.txt requirements/bootstrap.txt pyproject.toml requirements/warm_spark.py
	@requirements/setup
	@touch $@

lock: setup ## Resolve requirements/*.in anew, keeping versions that fit (UPGRADE=1: newest)
	requirements/lock $(if $(UPGRADE),--upgrade)

clean: ## Remove what builds and tests left behind (not .venv, and not .turnstile: catalog and lake of turnstile up)
	rm -rf build dist *.egg-info layers/build layers/*.egg-info {http,python,spark}_client/build {http,python,spark}_client/*.egg-info .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log mutants states
	find . -name __pycache__ -not -path './.venv/*' -not -path './.turnstile/*' -type d -prune -exec rm -rf {} +

.PHONY: artefacts
artefacts: setup ## Build the functions and their layers for AWS, into .aws-sam (needs Python 3.13 on the path)
	@[ -x .venv/sam/bin/sam ] || { $(BIN)/python -m venv .venv/sam && $(BIN)/uv pip install --quiet --python .venv/sam/bin/python \
	    --require-hashes -r infra/sam.txt; }
	.venv/sam/bin/sam build

.PHONY: site
site: setup ## Build the documentation as a site into build/site, strictly (SERVE=1: show it, and follow changes)
	@[ -x .venv/site/bin/mkdocs ] || { $(BIN)/python -m venv .venv/site && $(BIN)/uv pip install --quiet --python .venv/site/bin/python \
	    --require-hashes -r infra/site.txt; }
	NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs $(if $(SERVE),serve,build --quiet --strict)

.PHONY: matrix
matrix: setup ## Try the Spark client with every Spark, Python and Java that is supported (half an hour; Pythons on the path)
	$(BIN)/python -m benchmarks.spark.matrix

.PHONY: wheels
wheels: setup ## Build what is published into dist/: turnstile-lake, turnstile-lake-spark, turnstile-lake-client, and what they need
	$(BIN)/python infra/wheels.py dist

.PHONY: console console-test
NODE_MODULES := console/node_modules/.package-lock.json
$(NODE_MODULES): console/package-lock.json
	cd console && npm ci

console: $(NODE_MODULES) ## Build the console's files into the server (needs Node.js 20)
	cd console && npm run build

console-test: setup $(NODE_MODULES) ## Every screen of the console in a headless Chromium (IMAGES=docs/images/console: screenshots)
	cd console && npm run build
	git diff --exit-code --stat -- server/turnstile_server/console/site
	$(BIN)/python -m tests.console $(if $(IMAGES),--images $(IMAGES))

# -- check ------------------------------------------------------------------------------------------------------------

.PHONY: check lint types imports fix
check: lint types imports test-quick ## Everything before a push, in a few minutes

lint: setup ## Style: ruff, formatter included, and the words and the form of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) -q $(FORM)

fix: setup ## Let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## Types: mypy, strict
	$(BIN)/mypy layers functions server http_client spark_client python_client infra cli

imports: setup ## Import rules: who may know whom
	$(BIN)/lint-imports --no-logo

# -- test -------------------------------------------------------------------------------------------------------------

.PHONY: test test-all test-quick test-core test-mutants test-spark test-artefacts test-deployment test-properties test-slow test-slow-spark sweep flaky patterns dynoxide downloads simulate mutate bench
test: EXAMPLES = 0.25
test: test-mutants test-core test-spark ## Tests of every kind, in a quarter of an hour on two cores (EXAMPLES=4: sixteen times as many examples)

test-all: test-slow test-slow-spark ## What make test leaves out: the slow ones (less all mutants: make mutate; make sweep; make test-deployment)

test-properties: EXAMPLES = 4
test-properties: setup ## Properties alone, with sixteen times the examples of make test
	$(PYTEST) -m "hypothesis and not spark and not slow" $(SPREAD) --ignore tests/mutation tests

test-quick: EXAMPLES = 0.1
test-quick: setup ## The part under two minutes: unit, contract on fakes, functional, a server
	$(PYTEST) -m "not spark and not slow and not stack and not long" $(SPREAD_QUICK) $(LONG:%=--ignore tests/%) tests

test-core: setup
	$(PYTEST) -m "not spark and not slow" $(SPREAD) --ignore tests/mutation $(FORM:%=--ignore %) tests

# They fork the process they run in, which no xdist worker survives. Beside them the tests are imported once: so their modules are compiled for
# all processes of test-core, each of which would compile them otherwise.
test-mutants: setup
	status=0; $(PYTEST) --collect-only -q tests/unit >/dev/null 2>&1 & \
	$(PYTEST) --collect-only -q --ignore tests/mutation --ignore tests/unit tests >/dev/null 2>&1 & \
	$(PYTEST) -m "not slow" tests/mutation || status=$$?; wait; exit $$status

test-spark: setup ## Only the tests with a Spark session
	$(PYTEST) -m "spark and not slow" $(SPREAD_SPARK) $(SPARK:%=tests/%)

test-artefacts: setup ## Build both layers for this machine, deploy them with template.yaml to an emulator in an environment of its own, use it
	$(PYTEST) -rP tests/artefacts

test-deployment: setup ## Deploy by SAM to an emulator, functions run by Lambda's Python; needs root and Debian's debootstrap
	$(PYTEST) -rPs tests/deployment

test-slow: setup
	$(PYTEST) -m "slow and not spark" $(SPREAD) --ignore tests/mutation tests

test-slow-spark: setup
	$(PYTEST) -m "slow and spark" $(SPREAD_SPARK) --ignore tests/spark/test_sweep.py --ignore tests/deployment tests

sweep: setup ## 350 statements in a lake and beside it, in plain Delta; ten minutes
	$(PYTEST) tests/spark/test_sweep.py

flaky: ## The tests that .ci/run found flaky: they failed, and passed when they ran alone
	@if [ -s build/flaky.txt ]; then cat build/flaky.txt; else echo "none in the last run of .ci/run"; fi

patterns: setup ## Add the regular expressions that starts of functions compile to layers/patterns.json
	$(BIN)/python -m tests.support.deployment.patterns

dynoxide: setup ## Build dynoxide, DynamoDB's API for tests, into the cache folder (4 minutes the first time; needs cargo)
	$(BIN)/python -m tests.support.downloads dynoxide

downloads: setup ## What some tests download or compile the first time, ahead of them
	$(BIN)/python -m tests.support.downloads

simulate: setup ## Seeded simulation with faults: make simulate SEEDS=1000000
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

mutate: setup ## Break every clause and decision in turn; each must make a test fail
	$(BIN)/python -m tests.mutation --jobs 2

bench: setup ## Benchmarks on the emulated deployment
	$(BIN)/python -m benchmarks.race
	$(BIN)/python -m benchmarks.unity_vs_v1
	$(BIN)/python -m benchmarks.catalog_commits
