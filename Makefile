# Short names for what people type; .ci/run calls the same ones.
PYTHON ?= python3
DATA ?= .llmgw
QUESTION ?= Say hello in one short sentence.
MODEL := $(DATA)/models/SmolLM2-135M-Instruct.Q4_1.gguf
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check

.PHONY: up test slow check format proto docs ci

up: .venv/up.stamp $(MODEL) ## start everything here; ONCE=1 asks QUESTION, prints the answer and ends
	$(BIN)/llmgw up --data $(DATA) $(if $(ONCE),--once "$(QUESTION)")

test: .venv/dev.stamp ## the fast tests
	$(BIN)/pytest -n 2 -m "not slow"

slow: .venv/dev.stamp ## the others
	$(BIN)/pytest -m slow

check: .venv/dev.stamp ## style, types, floors
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.stamp
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

proto: .venv/dev.stamp ## write runtime/llmgw/rpc/v1 anew
	$(BIN)/python proto/generate.py

docs: .venv/dev.stamp ## write the pages that are made from the code anew
	$(BIN)/llmgw config reference > docs/reference/settings.md

ci:
	.ci/run

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/up.stamp: pyproject.toml | .venv/bin/pip
	$(PIP) install --editable '.[server,agent,local]'
	touch $@

.venv/dev.stamp: pyproject.toml | .venv/bin/pip
	$(PIP) install --editable '.[dev]'
	touch $@

$(MODEL): .make/model.txt | .venv/bin/pip
	$(BIN)/python .make/fetch_model.py $(@D)
	touch $@
