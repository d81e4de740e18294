# make demo         train and evaluate a translator on a small generated corpus (minutes)
# make test         run the test suite, in up to four processes
# make test-long    run the slow tests
# make test-interop load exports in the programs they are for: Transformers, Argos Translate (large)
# make test-gpu     test what runs on a GPU alone (needs one, and Triton, which torch for CUDA brings)
# make test-clients run the server's clients: LibreTranslate, DeepL, Schemathesis, Chromium
#                   (TRANSDUCE_BROWSER=required fails instead of skipping when Chromium is missing)
# make test-cluster translate and prepare on a local cluster of Ray, with workers and drivers killed (installs Ray)
# make test-wheel   install the built wheel into an empty environment elsewhere (downloads torch again);
#                   TRANSDUCE_MULTI30K=FOLDER uses that corpus instead of a generated one
# make faults       kill a training run at fifty points, resume it, compare the bytes (minutes)
# make docs         build the site in docs/_build/html with warnings as errors, and test its pages
# make records      write the records' values into the pages, and the paper's tables and figures again
#                   from their records; list numbers that no record holds
# make notebooks    run the notebooks, and write their outputs into them (minutes)
# make mutations    break the line behind each claim of the paper; its test must fail (minutes)
# make check        check format, lint, types, import layers, doctests (make fix repairs the first two)
# make clean        remove what these commands created here, except runs/ and data/
#
# Each target creates .venv if necessary and installs the versions pinned in constraints.txt.
#   PYTHON        interpreter to create .venv with (3.11 or newer):  make demo PYTHON=python3.12
#   PIP_OPTIONS   passed to pip. The default torch wheel for Linux includes gigabytes of CUDA
#                 libraries; for CPUs only, give PyTorch's CPU index (see pytorch.org, "Get started"):
#                 make demo PIP_OPTIONS="--extra-index-url ADDRESS"

PYTHON ?= python3
PIP_OPTIONS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $(PIP_OPTIONS)

.DELETE_ON_ERROR:
.PHONY: help demo test test-long test-interop test-gpu test-clients test-cluster test-wheel faults mutations docs records notebooks check fix clean

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.core
	$(BIN)/transduce demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --maxprocesses=4 --dist=loadfile --durations=10 --durations-min=1 \
		--ignore=tests/docs --ignore=tests/cluster

test-long: $(VENV)/.test
	$(BIN)/python -m pytest --durations=10 -m slow

test-interop: $(VENV)/.interop
	$(BIN)/python -m pytest --durations=5 tests/interop

test-gpu: $(VENV)/.test
	$(BIN)/python -m pytest -o addopts="--import-mode=importlib" tests/gpu

test-clients: $(VENV)/.clients
	$(BIN)/python -m pytest --durations=5 --reruns 2 -rR tests/clients

test-cluster: $(VENV)/.cluster
	$(BIN)/python -m pytest --durations=5 tests/cluster

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

records: $(VENV)/.test
	$(BIN)/python benchmarks/paper.py --pages
	$(BIN)/python docs/_ext/values.py --write

notebooks: $(VENV)/.docs
	$(BIN)/python docs/_ext/notebook.py

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

# One stamp per set of packages, so that a second call installs nothing.
# tests/frozen/test_make_targets.py checks that each target installs what its tests import.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing transduce and its dependencies into $(VENV); torch is large"
	@$(INSTALL) -e ".[train,serve]"
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@$(INSTALL) --quiet -e ".[test,detect,moses,near,plot,tune]"
	@touch $@

$(VENV)/.interop: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[test-interop]"
	@$(INSTALL) --quiet --no-deps opustrainer  # wants an older sentencepiece, which its variations do without
	@touch $@

$(VENV)/.clients: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[cluster,test-clients]"
	@touch $@

$(VENV)/.cluster: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[cluster,test-cluster]"
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	@$(INSTALL) --quiet -e ".[docs]"
	@touch $@

# Includes the optional packages: the type checker reads the code that uses them.
$(VENV)/.dev: $(VENV)/.core
	@$(INSTALL) --quiet -e ".[dev,detect,memory,moses,near,plot,tune]"
	@touch $@

# venv installs pip last: if it is missing, .venv is missing or incomplete.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no '$(PYTHON)': install Python 3.11 or newer (apt install python3 python3-venv), or name one: make $(MAKECMDGOALS) PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: transduce needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1): name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) lacks the venv module: install it (Debian, Ubuntu: apt install python3-venv), then run make again" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "make: no virtual environment could be made in $(VENV): see the message above" >&2; exit 1; }
