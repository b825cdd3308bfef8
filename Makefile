# `make demo` and `make test` set everything up by themselves: Python 3.11+ and make are all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-fast browser conformance openapi-documents plugins frameworks lint types docs bench build wheel-test clean

$(INSTALLED): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	@echo "Installing praval_tools in $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[ui]'
	@touch $@

$(READY): $(INSTALLED)
	@echo "Installing what the tests need in $(VENV) ..."
	@$(PIP) \
	    pytest pytest-xdist hypothesis mypy ruff import-linter build hatchling hatch-fancy-pypi-readme mkdocs-material 'mkdocstrings[python]' \
	    pydantic numpy openai anthropic google-genai mcp praval PyYAML watchfiles \
	    httpx fastapi starlette uvicorn python-multipart pydantic-ai-slim langchain langgraph openai-agents 'psycopg[binary]' \
	    opentelemetry-sdk opentelemetry-exporter-prometheus 'celery[redis]' cryptography
	@$(PIP) pyright || echo "pyright cannot be installed here: the test of the stubs with it is skipped."
	@$(PIP) fastmcp || echo "fastmcp cannot be installed here: the tests with its servers are skipped."
	@$(PIP) playwright axe-playwright-python || echo "playwright cannot be installed here: the tests in a browser are skipped."
	@$(PIP) pre-commit || echo "pre-commit cannot be installed here: the test of its hook is skipped."
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/praval-tools demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# What to run at every change, in less than a minute: the gates, and the tests of what needs no server, browser or
# command line, without those that are marked slow and with few examples each. To it comes the folder of what you change.
FAST := architecture foundation schema tools access execution registry runs formats config
test-fast: $(READY)
	HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow" $(FAST:%=tests/%)

# The official conformance suite of the Model Context Protocol, for its tests; needs npm.
conformance:
	sh .ci/conformance

# Chromium, for the tests of the operator's page and of the docs in a browser; installed where apt-get can.
browser:
	sh .ci/browser

# Large OpenAPI documents that public packages ship, for their tests; needs npm.
openapi-documents: $(INSTALLED)
	sh .ci/openapi-documents $(BIN)/python

# The packages in plugins/, each in an environment of its own.
plugins: $(READY) build
	sh .ci/plugins $(CURDIR)/$(BIN)

# CrewAI, Microsoft's Agent Framework and Strands Agents with functions as tools, each in an environment of its own.
frameworks: build
	sh .ci/frameworks $(CURDIR)/$(BIN)

lint: $(READY)
	$(BIN)/ruff check praval_tools tests benchmarks examples
	$(BIN)/ruff format --check tests
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/mkdocs build --strict --quiet

bench:
	$(PYTHON) benchmarks/run.py

build: $(READY)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

# The wheel, in an environment of its own, with the source folder out of the way.
wheel-test: build
	sh .ci/wheel-test $(PYTHON)

clean:
	rm -rf $(VENV) .venv-bench .venv-plugins .venv-frameworks .conformance .openapi-documents build dist site praval-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
