# Short names for what people type; .ci/run calls the same ones.
PYTHON ?= python3
DATA ?= .llmgw
DIST ?= dist
QUESTION ?= Say hello in one short sentence.
MODEL := $(DATA)/models/SmolLM2-135M-Instruct.Q4_1.gguf
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
CONTROLLER := .venv-controller
SLOW_ROOMS := $(addprefix tests/,bench contract e2e component/agent component/catalog \
	component/rpc_session)
SLOW := $(BIN)/pytest -n 4 --dist loadgroup --no-loadscope-reorder --durations 12 \
	-m "slow and not soak and not exhaustive" $(SLOW_ROOMS)

.PHONY: pins up test slow test-slow exhaustive wheel test-compiled soak check format proto docs controller test-ansible check-ansible test-story test-fleet test-engine ci

up: .venv/up.stamp $(MODEL) ## start everything here; ONCE=1 asks QUESTION, prints the answer and ends
	$(BIN)/llmgw up --data $(DATA) $(if $(ONCE),--once "$(QUESTION)")

test: .venv/dev.stamp ## the fast tests
	$(BIN)/pytest -n 3 -m "not slow"

slow: .venv/dev.stamp ## the others
	$(SLOW)

test-slow: .venv/dev.stamp ## those with a genuine llama-server too, which is built once where it can be
	program=$$(.make/llama_server.sh $(BIN)/pip) || echo "no llama-server: not tested with it" >&2; \
	LLMGW_TEST_LLAMA_SERVER=$$program $(SLOW)

exhaustive: .venv/dev.stamp ## properties over twenty times as many random cases, by hand; ten minutes
	$(BIN)/pytest -n 2 -m exhaustive

wheel: .venv/dev.stamp ## the wheel with the gateway compiled, for this Python and processor; takes a C compiler
	HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(BIN)/python -m build --outdir $(DIST) .

test-compiled: ## the gateway's tests, with the gateway compiled
	rm -rf build/dist build/compiled
	$(MAKE) wheel DIST=build/dist
	$(PIP) install --no-deps --target build/compiled build/dist/*.whl
	PYTHONPATH=build/compiled $(BIN)/pytest -n 2 -m "not slow" tests/component/gateway

soak: .venv/dev.stamp ## ten minutes of traffic, for what grows slowly, and one without control planes
	$(BIN)/pytest -n 2 -m soak tests/bench tests/e2e

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
	$(BIN)/llmgw config reference --metrics > docs/reference/metrics.md

controller: $(CONTROLLER)/stamp ## what runs the playbooks and tests them: Ansible, Molecule, linters

test-ansible: $(CONTROLLER)/stamp .venv/dev.stamp ## modules, plugins and roles, as a controller runs them
	$(CONTROLLER)/bin/pytest -n 2 -m "not story" tests/ansible

check-ansible: $(CONTROLLER)/stamp ## linters of playbooks and roles, sanity of the collection
	PATH=$(CURDIR)/$(CONTROLLER)/bin:$$PATH yamllint --strict .
	PATH=$(CURDIR)/$(CONTROLLER)/bin:$$PATH ANSIBLE_CONFIG=playbooks/ansible.cfg ansible-lint
	.make/collection_sanity.sh $(CONTROLLER)/bin $(CONTROLLER)/sanity

pins: .venv/dev.stamp ## write the versions that hosts get anew
	$(PIP) install uv
	(echo '# The versions that hosts get; `make pins` writes them anew from pyproject.toml.'; \
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	--extra agent --extra server --extra local pyproject.toml) > runtime/constraints.txt.new
	mv runtime/constraints.txt.new runtime/constraints.txt

test-story: $(CONTROLLER)/stamp .venv/dev.stamp ## booted hosts, the short story
	$(CONTROLLER)/bin/pytest -m "story and not slow" tests/ansible

test-fleet: $(CONTROLLER)/stamp .venv/dev.stamp ## booted hosts, each role and all stories, with a genuine llama-server
	PATH=$(CURDIR)/$(CONTROLLER)/bin:$$PATH molecule/shared/run.sh roles_default roles_alternative
	program=$$(.make/llama_server.sh $(BIN)/pip) && \
	LLMGW_TEST_LLAMA_SERVER=$$program $(CONTROLLER)/bin/pytest -m story tests/ansible

test-engine: .venv/dev.stamp ## the contract of engines and agents that are killed, with a genuine llama-server too
	program=$$(.make/llama_server.sh $(BIN)/pip) && \
	LLMGW_TEST_LLAMA_SERVER=$$program $(BIN)/pytest tests/contract/engine tests/e2e/test_killed_agents.py

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

$(CONTROLLER)/stamp: .make/controller.txt
	$(PYTHON) -m venv $(CONTROLLER)
	$(CONTROLLER)/bin/pip --quiet --disable-pip-version-check install --requirement $<
	touch $@

$(MODEL): .make/model.txt | .venv/bin/pip
	$(BIN)/python .make/fetch_model.py $(@D)
	touch $@
