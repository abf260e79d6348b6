PYTHON ?= python3
BIN := .venv/bin
# setuptools warns about every editable install, in a box.
PIP_INSTALL := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --quiet --constraint constraints.txt

OWNER := $(shell sed -n 's|^Repository = "https://github.com/\(.*\)/gedbd"|\1|p' pyproject.toml)
OF_OWNER := (/gedbd\b|\s+is\s+the\s+GitHub\s+account)

.DEFAULT_GOAL := $(if $(filter command,$(firstword $(origin owner))),owner,help)
.PHONY: help owner install demo paper test integration slow test-all attack browser soak check sensitivity bench bench-compare docs docs-serve dist clean

help:     ## list the commands
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+): *[^#]*## */make \1\t/' | expand -t 20

owner:    ## name the GitHub account that hosts the project in all files (make owner=NAME)
	@echo '$(owner)' | grep -Exq '[A-Za-z0-9-]+' || { echo 'make owner=NAME: the GitHub account; now $(OWNER)'; exit 2; }
	@git grep -lzI -w '$(OWNER)' | xargs -0 perl -0 -pi -e 's#\b$(OWNER)(?=$(OF_OWNER))#$(owner)#g'

install: .venv/installed  ## set up .venv with the pinned packages of all commands
	@echo "next: source .venv/bin/activate"

.venv/installed: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) pip setuptools
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) --editable '.[commands]'
	@touch $@

.venv/dev-installed: .venv/installed
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

demo: .venv/installed  ## train on the bundled corpus and show the results
	$(BIN)/python -m gedbd.train experiment=demo

# Needs a GPU, weights of the hub, and both corpora: gedbd download dataset=eclipse, gedbd download dataset=thunderbird
paper: .venv/installed  ## train for the paper's tables and figures, or resume (ARGS=); DRY=1 says what it takes
	$(BIN)/python $(if $(DRY),benchmarks/estimate.py,-m gedbd.train hydra.sweep.dir=outputs/paper) experiment=paper_tables $(ARGS)

# Tests start many processes: bytecode is kept even where it is not wanted otherwise, for each to compile nothing again.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

test: .venv/dev-installed  ## run the quick tests (COVERAGE=1 measures what they cover)
	$(PYTEST) -m 'not slow and not browser and not integration' -n 2 --dist loadscope --no-loadscope-reorder $(if $(COVERAGE),--cov=gedbd --cov-report=)

# The coverage is that of these tests and of the last make test COVERAGE=1.
integration: .venv/dev-installed  ## run the tests of whole commands, trainings and servers (COVERAGE=1)
	$(PYTEST) -m 'integration and not slow and not browser' -n 2 --dist loadscope --no-loadscope-reorder $(if $(COVERAGE),--cov=gedbd --cov-append --cov-report=term:skip-covered --cov-fail-under=94)

test-all: .venv/dev-installed  ## run all tests but those of the browser
	$(PYTEST) -m 'not browser' -n 2 --dist loadscope

slow: .venv/dev-installed  ## run the slow tests, but those of make attack
	$(PYTEST) -m 'slow and not browser' -n 2 --dist loadscope --ignore=tests/attack --ignore=tests/service/test_fuzz.py

attack: .venv/dev-installed  ## run the slow tests of hostile input and of faults
	$(PYTEST) -m 'slow and not browser' -n 2 --dist loadscope tests/attack tests/service/test_fuzz.py

# Debian's package brings Chromium if it is missing.
browser: .venv/dev-installed  ## test a report and the service's page in headless Chromium
	@command -v chromium > /dev/null || (apt-get update -qq && apt-get install -qq -y chromium > /dev/null)
	$(PYTEST) -m browser tests/test_browser.py tests/test_judging_page.py tests/service/test_service_page.py

# Ten minutes by default. The faults of a full disk and of the clock need root and a C compiler.
soak: .venv/dev-installed  ## serve under load while faults are injected (MINUTES=, SEED=, OVERLAP=1, SYNC=1)
	PYTHONPATH=tests/helpers OMP_NUM_THREADS=1 $(BIN)/python soak --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0) $(if $(OVERLAP),--overlap) $(if $(SYNC),--sync)

check: .venv/dev-installed  ## format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

sensitivity: .venv/installed  ## sweep lambda, margin, d, D and epochs on the bundled corpus
	$(BIN)/python -m gedbd.train experiment=sensitivity dataset=demo encoder=tiny hydra.sweep.dir=outputs/sensitivity

# Beside the paper's loop and other libraries: CORPUS=reports.csv SECTIONS=graph FILL=page.md
bench: .venv/dev-installed  ## measure speed (CORPUS=, SECTIONS=, FILL=)
	$(PIP_INSTALL) --editable '.[dev,bench]'
	$(BIN)/python benchmarks --corpus '$(CORPUS)' --fill '$(FILL)' $(SECTIONS)

# RECORDS="EARLIER.json LATER.json" names two others.
bench-compare: .venv/installed  ## compare the two newest records of make bench (RECORDS=)
	$(BIN)/python benchmarks/compare.py $(RECORDS)

# The site can be read from the file system too. Every warning is an error.
docs: .venv/docs-installed  ## build the manual into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: .venv/docs-installed  ## show the manual at http://127.0.0.1:8000 as it changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

.venv/docs-installed: .venv/dev-installed
	$(PIP_INSTALL) --editable '.[dev,docs]'
	@touch $@

# twine checks what package indexes show of them.
dist: .venv/installed  ## build wheel and source archive into dist/
	$(PIP_INSTALL) --editable '.[dev,release]'
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:  ## remove the environment and all caches, not outputs/
	rm -rf .venv build dist site *.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache
