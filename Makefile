# Two commands do everything: `make compare` and `make test`. Both install what they need into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1

.PHONY: compare test test-all lint clean

compare: $(READY)
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m bridge compare

test: $(READY) lint
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(READY) lint
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(READY): setup.cfg pyproject.toml
	@command -v g++ >/dev/null || { echo "A C++ compiler is needed: install g++ (Debian/Ubuntu: apt-get install g++; macOS: xcode-select --install)."; exit 1; }
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install python3 and python3-venv."; exit 1; }
	@echo "Making $(VENV) with $(PYTHON) and installing the project (a minute or two) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore::UserWarning $(BIN)/python -m pip install --quiet --editable ".[stan,report,test]"
	@touch $@

clean:
	rm -rf $(VENV) results .pytest_cache .mypy_cache .ruff_cache
