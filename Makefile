# make demo       the whole journey on a small generated corpus: a translator, in minutes
# make test       the test suite (make test-long adds the slow checks, make docs the pages' own)
# make test-interop exports in the programs they are for: Transformers, Argos Translate (large)
# make test-clients   the server's clients: LibreTranslate's, DeepL's, Schemathesis, a real browser
#                 (TRANSDUCE_BROWSER=required: a missing Chromium is a failure, not a skip)
# make test-wheel the built wheel in an empty environment away from here (downloads torch again);
#                 TRANSDUCE_MULTI30K=FOLDER takes that corpus in place of a made-up one
# make faults     a training run killed at fifty points and gone on with: the same bytes (minutes)
# make docs       the site, in docs/_build/html: warnings are errors, links and pictures checked
# make mutations  breaks the line that implements each claim of the paper, in a copy, and sees that
#                 its test notices (minutes)
# make check      format, lint, types, import order, doctests      (make fix mends what it can)
# make clean      remove what these commands made, runs/ and data/ excepted
#
# Each makes .venv when it is missing and installs the versions of constraints.txt into it.
#   PYTHON        the Python to make .venv with (3.11 or newer):  make demo PYTHON=python3.12
#   PIP_OPTIONS   passed on to pip. The usual torch for Linux brings gigabytes for GPUs; for the
#                 CPU alone give PyTorch's CPU index (its address: pytorch.org, "get started"):
#                 make demo PIP_OPTIONS="--extra-index-url ADDRESS"

PYTHON ?= python3
PIP_OPTIONS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $(PIP_OPTIONS)

.DELETE_ON_ERROR:
.PHONY: help demo test test-long test-interop test-clients test-wheel faults mutations docs check fix clean

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.core
	$(BIN)/transduce demo

test: $(VENV)/.test
	$(BIN)/python -m pytest --durations=10 --durations-min=1 --ignore=tests/docs

test-long: $(VENV)/.test
	$(BIN)/python -m pytest --durations=10 -m slow

test-interop: $(VENV)/.interop
	$(BIN)/python -m pytest --durations=5 tests/interop

test-clients: $(VENV)/.clients
	$(BIN)/python -m pytest --durations=5 tests/clients

test-wheel: $(VENV)/.test
	TRANSDUCE_WHEEL=alone PIP_OPTIONS="$(PIP_OPTIONS)" $(BIN)/python -m pytest -m slow tests/journey/test_wheel.py

faults: $(VENV)/.test
	$(BIN)/python tests/faults/killing.py --points 50 --record benchmarks/results/killing

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going --quiet docs docs/_build/html
	$(BIN)/python -m pytest --quiet tests/docs
	@echo "the site: docs/_build/html/index.html"

mutations: $(VENV)/.test
	$(BIN)/python tests/paper/mutations.py

check: $(VENV)/.dev $(VENV)/.test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet src

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) build dist docs/_build src/transduce.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp a set of packages, so that a second call costs nothing.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing transduce and what it needs into $(VENV); torch is large"
	@$(INSTALL) -e ".[serve]"
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@$(INSTALL) --quiet -e ".[test,moses,plot]"
	@touch $@

$(VENV)/.interop: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[test-interop]"
	@touch $@

$(VENV)/.clients: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[test-clients,detect]"
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[docs,plot,serve]"
	@touch $@

# Optional packages come along: the type checker reads the code that uses them.
$(VENV)/.dev: $(VENV)/.core
	@$(INSTALL) --quiet -e ".[dev,detect,moses,plot]"
	@touch $@

# pip arrives last: where it is missing, .venv is missing or was left half made.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no '$(PYTHON)': install Python 3.11 or newer (apt install python3 python3-venv), or name one: make $(MAKECMDGOALS) PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: transduce needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1): name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) lacks the venv module: install it (Debian, Ubuntu: apt install python3-venv), then run make again" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "make: no virtual environment could be made in $(VENV): see the message above" >&2; exit 1; }
