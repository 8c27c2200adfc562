# make demo   set up and compare five methods on the bundled data
# make test   set up and run the tests
# make check  linters, types, and the fast tests: what to run at each change, in under a minute
# make again  run what failed the last time
# make docs   set up and build the site from docs/ into site/; open site/index.html
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RUNNABLE := $(VENV)/.runnable

# Without compiled files each of the tests' many processes compiles fedfor anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check again lint docs docs-serve clean
.DEFAULT_GOAL := test

demo: $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(RUNNABLE))
	$(BIN)/fedfor compare demo --out runs/demo

# Three at a time also on two cores: tests of clusters and servers mostly wait.
test: $(INSTALLED)
	$(BIN)/python -m pytest -n 3 --dist loadgroup

check: lint
	$(BIN)/python -m pytest -q -n 2 -m fast

again: $(INSTALLED)
	@test -s .pytest_cache/failed.txt || { echo 'Nothing failed the last time.'; exit 0; }; \
	  $(BIN)/python -m pytest @.pytest_cache/failed.txt

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Not --quiet, which would let warnings pass in spite of --strict.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

# What a run needs is less, and sooner there, than what the tests need.
$(RUNNABLE): extras := report
$(INSTALLED): extras := dev
$(RUNNABLE) $(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedfor needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@echo 'Setting up $(VENV): a minute or two'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(extras)]'
	@touch $@

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
