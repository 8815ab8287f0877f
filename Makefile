# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build

NATIVE := $(shell find native proto -name '*.[ch]' -o -name CMakeLists.txt -o -name '*.py')

.PHONY: setup build test clean

build: $(VENV)/.built

$(VENV)/.python: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' 'cffi>=2.1' cmake ninja 'opentelemetry-proto>=1.30'
	touch $@

$(VENV)/.built: $(VENV)/.python pyproject.toml $(NATIVE)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[dev]'
	touch $@

clean:
	rm -rf $(BUILD) $(VENV)
