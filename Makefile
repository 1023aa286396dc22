# Everything a newcomer needs: `make run` and `make test`. Both install what is missing first.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
DEV_READY := $(VENV)/.dev-mode
TEST_READY := $(VENV)/.test
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
NEXT := $(filter mysql next,$(DB) $(STACK))
# The next servers see only their own folder: the tests' directories have to be in it.
NEXT_SERVERS = TMPDIR=$(CURDIR)/.next-servers/root/tmp REDPACKET_TEST_DB=$(DB) REDPACKET_TEST_STACK=$(STACK)

.DEFAULT_GOAL := help
.PHONY: help run test chaos check bench format lock clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

run: $(DEV_READY) ## serve on 127.0.0.1:8000 with embedded stores and show the demo (ONCE=1: then exit)
	@$(BIN)/redpacket dev $(if $(filter-out 0,$(ONCE)),--once) $(if $(PORT),--port $(PORT))

test: $(TEST_READY) ## every test, on real servers installed and started here (DB=mysql, STACK=next: newer ones)
	@$(if $(filter-out mariadb mysql,$(DB)),$(error DB is mariadb or mysql, not $(DB)))
	@$(if $(filter-out next,$(STACK)),$(error STACK is next, not $(STACK)))
	@deploy/install-servers.sh
	@$(if $(NEXT),deploy/install-next-servers.sh)
	@$(if $(NEXT),$(NEXT_SERVERS)) $(BIN)/python -m pytest $(if $(K),-k '$(K)') $(PYTEST_ARGS)

chaos: $(TEST_READY) ## faults at random on real servers, then a reckoning; SEED=1 MINUTES=2 JSON=path
	@deploy/install-servers.sh
	@$(BIN)/python -m tests.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),2) $(if $(JSON),--json $(JSON))

check: $(TEST_READY) ## format, lint, types, imports, unit tests: fast
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m pytest tests/unit --quiet

bench: $(TEST_READY) ## performance on real servers; ONLY=grab runs a part
	@deploy/install-servers.sh --with-wrk
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

format: $(TEST_READY) ## rewrite the code in the agreed format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

lock: ## write constraints.txt anew from the newest versions that pyproject.toml admits
	@rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check '.[test]'
	@$(VENV)/lock/bin/python -m pip freeze --exclude redpacket > constraints.txt

clean: ## remove the environment, the data of dev mode and the next servers
	@rm -rf $(VENV) .data .next-servers

$(BIN)/python:
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(DEV_READY): $(BIN)/python pyproject.toml constraints.txt
	@echo "installing the service and its embedded stores"
	@$(PIP_INSTALL) --editable '.[dev-mode]'
	@touch $@

$(TEST_READY): $(BIN)/python pyproject.toml constraints.txt
	@echo "installing the service and the test tools"
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(DEV_READY)
