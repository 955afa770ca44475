# Two commands do all on a fresh machine with Python >= 3.11:
#   make demo    install, quantize a sample checkpoint, verify it
#   make test    install what development needs, run the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := sample:qwen3.6-moe
SCHEMES ?=
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))

# Stamps: an environment is installed again only when what it is made from has changed.
MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
ENGINES := .venv-engines
ENGINES_DONE := $(ENGINES)/.done
ENGINES_PYTHON := PYTHONPATH=.:tests_engines/hooks $(ENGINES)/bin/python
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-engines lint format docs bench bench-backends bench-schemes bench-sizes bench-formats bench-quality bench-hub \
	bench-gpu bench-kill bench-full-disk clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(RUNTIME) ## quantize a small checkpoint and verify it
	$(BIN)/schemegen apply kimi-k2-int4 $(SAMPLE) -o build/demo --overwrite
	$(BIN)/schemegen verify build/demo --against $(SAMPLE)

test: $(DEV) ## run the tests
	$(BIN)/python -m pytest -n auto --dist loadfile
	@for plugin in $(PLUGINS); do (cd $$plugin && $(CURDIR)/$(BIN)/python -m pytest) || exit 1; done

test-engines: $(ENGINES_DONE) ## vLLM, SGLang and transformers on real outputs (3 GB to install, then 10 to 20 minutes)
	$(ENGINES_PYTHON) -m pytest tests_engines

lint: $(DEV) ## ruff, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@for plugin in $(PLUGINS); do (cd $$plugin && $(CURDIR)/$(BIN)/mypy) || exit 1; done

format: $(DEV) ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS) ## build the documentation's site in build/docs
	$(BIN)/python -m sphinx -q -n -W --keep-going -b html docs build/docs

bench: $(DEV) ## measure the claims side by side, print ratios
	$(BIN)/python -m bench.run --peer-python $(BIN)/python

bench-backends: $(DEV) ## every backend on the same checkpoint: bits, time, memory
	$(BIN)/python -m bench.backends --peer-python $(BIN)/python

bench-schemes: $(DEV) ## every built-in scheme on small checkpoints: bytes, verify, who else computes the bits
	$(BIN)/python -m bench.accept

bench-sizes: $(DEV) ## every built-in scheme on Qwen3.6-35B-A3B's layout: planned bytes, seconds to plan
	$(BIN)/python -m bench.schemes

bench-formats: $(DEV) ## every format on 3.3 GB, native against llm-compressor: seconds, memory, bits (an hour)
	$(BIN)/python -m bench.formats --peer-python $(BIN)/python

bench-quality: $(ENGINES_DONE) ## YARDSTICK=DIR: what SCHEMES, or all, cost on a small trained checkpoint
	$(ENGINES_PYTHON) -m bench.quality --yardstick $(YARDSTICK) $(SCHEMES)

bench-hub: $(DEV) ## what a model on the Hub costs, killed downloads, the sentence for each error
	$(BIN)/python -m bench.hub

bench-gpu: $(DEV) ## check a GPU's bits and measure it
	$(BIN)/python -m bench.gpu

bench-kill: $(DEV) ## 50 kills at random moments, resumed each time
	$(BIN)/python -m bench.kill

bench-full-disk: $(DEV) ## a full disk, then more space
	$(BIN)/python -m bench.full_disk

clean: ## remove the environment and everything built
	rm -rf $(VENV) $(ENGINES) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "schemegen needs Python 3.11 or newer and $(PYTHON) is not: run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@touch $@

$(RUNTIME): $(MADE) pyproject.toml constraints.txt
	@echo "installing schemegen into $(VENV) (half a minute the first time)"
	@$(PIP) -e .
	@touch $@

$(DEV): $(MADE) pyproject.toml constraints.txt $(PLUGINS:%=%/pyproject.toml)
	@echo "installing schemegen and what its tests need, torch among it, into $(VENV) (some minutes the first time)"
	@$(PIP) -e '.[dev]' $(PLUGINS:%=-e %)
	@touch $@ $(RUNTIME)

$(DOCS): $(MADE) pyproject.toml constraints.txt
	@echo "installing schemegen and what builds its site into $(VENV) (half a minute the first time)"
	@$(PIP) -e '.[docs]'
	@touch $@

$(ENGINES_DONE): tests_engines/requirements.txt pyproject.toml
	@echo "installing vLLM for CPUs, SGLang's sources and transformers into $(ENGINES) (some minutes the first time)"
	@$(PYTHON) -m venv $(ENGINES)
	@$(ENGINES)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps \
		-r tests_engines/requirements.txt -e . || \
		{ echo "vLLM needs torch's CPU build, torch 2.13.0+cpu: let pip know of an index that has it" >&2; exit 1; }
	@touch $@
