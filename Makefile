# Two commands do everything: `make compare` and `make test`. Both install what they need into .venv.
# `make test-pymc6` runs the same suite on PyMC 6, `make test-discrete-pymc6` there what needs pymc-extras,
# `make test-minimum` on the oldest versions of all dependencies, `make docs` builds the documentation.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
# PyMC 6 needs Python 3.12 or newer
PYTHON313 ?= $(shell .ci/python313)
VENV313 := .venv313
READY313 := $(VENV313)/.installed
# pymc-extras takes no PyMC from 6.4 on: what needs it is tested on the newest that it takes
VENV_DISCRETE := .venv-discrete
READY_DISCRETE := $(VENV_DISCRETE)/.installed
VENV_MINIMUM := .venv-minimum
READY_MINIMUM := $(VENV_MINIMUM)/.installed
# what `make test` tests: all but the peers that are compared with (extra peers), torch and ray
EXTRAS := stan,report,jax,cluster,bambi,discrete,parquet,test
EXTRAS313 := stan,report,jax,cluster,bambi,parquet,test
# what .ci/run runs on PyMC 6: every door, and every place where the versions differ
PYMC6_SHORT := tests/test_every_door.py tests/test_versions.py tests/pymc_ext/gp/test_model.py \
	tests/pymc_ext/ops/test_callback.py tests/pymc_ext/variational/gaussian/test_diagonal.py \
	tests/posteriordb_cases/test_case.py tests/bridge/measures/test_moments.py tests/bridge/measures/test_khat.py \
	tests/pymc_ext/test_over_draws.py
COMMA := ,
export OMP_NUM_THREADS ?= 1

.PHONY: compare test nightly record test-all test-pymc6 test-pymc6-short test-discrete-pymc6 test-minimum python313 docs docs-links lint clean

compare: $(READY)
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m bridge compare

test: $(READY) lint
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m pytest -n 2 -m "not slow"

# exit status 1 where answers got worse or dearer than benchmarks/results/nightly.json
nightly: $(READY)
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m benchmarks.nightly

# all methods on all posteriors with reference draws, three seeds: make record DATABASE=/path/to/posteriordb
record: $(READY)
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m benchmarks.sweep_record $(if $(DATABASE),--database $(DATABASE))

test-all: $(READY) lint
	$(BIN)/python -m stan_models setup
	$(BIN)/python -m pytest -n 2

test-pymc6: $(READY313)
	$(VENV313)/bin/python -m stan_models setup
	$(VENV313)/bin/python -m pytest -n 2 -m "not slow"

test-pymc6-short: $(READY313)
	$(VENV313)/bin/python -m stan_models setup
	$(VENV313)/bin/python -m pytest -n 2 -m "not slow" $(PYMC6_SHORT)

# PyMC 6.3 warns of a name that its PyTensor has moved
test-discrete-pymc6: $(READY_DISCRETE)
	$(VENV_DISCRETE)/bin/python -m pytest tests/bridge/advice/test_discrete.py tests/pymc_ext/models \
		-W "ignore:Importing 'IfElse':DeprecationWarning"

# old packages warn of one another: warnings are no errors here
test-minimum: $(READY_MINIMUM)
	$(VENV_MINIMUM)/bin/python -m pip check
	$(VENV_MINIMUM)/bin/python -m stan_models setup
	$(VENV_MINIMUM)/bin/python -m pytest -n 2 -m "not slow" -o filterwarnings=default

# pages are run as they are built; docs/_build/html/index.html is the result
docs: $(READY)
	$(BIN)/python -c "import myst_nb, numpydoc, pydata_sphinx_theme" 2>/dev/null || PYTHONWARNINGS=ignore::UserWarning $(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

docs-links: $(READY)
	$(BIN)/sphinx-build -W --keep-going -D nb_execution_mode=off -D suppress_warnings=myst-nb.lexer -b linkcheck docs docs/_build/links

python313:
	@echo $(PYTHON313)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# $(call environment,folder,Python,extras,other requirements)
define environment
	@echo "Making $(1) with $(2) and installing the project (a minute or two) ..."
	$(2) -m venv $(1)
	$(1)/bin/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore::UserWarning $(1)/bin/python -m pip install --quiet --editable ".[$(3)]" $(4)
	@touch $(1)/.installed
endef

define python313_needed
	@test -n "$(PYTHON313)" || { echo "PyMC 6 needs Python 3.12 or newer, none runs here: make $(1) PYTHON313=/path/to/python3.13"; exit 1; }
endef

$(READY): setup.cfg pyproject.toml
	@command -v g++ >/dev/null || { echo "A C++ compiler is needed: install g++ (Debian/Ubuntu: apt-get install g++; macOS: xcode-select --install)."; exit 1; }
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install python3 and python3-venv."; exit 1; }
	$(call environment,$(VENV),$(PYTHON),$(EXTRAS))

$(READY313): setup.cfg pyproject.toml
	$(call python313_needed,test-pymc6)
	$(call environment,$(VENV313),$(PYTHON313),$(EXTRAS313),"pymc>=6")

$(READY_DISCRETE): setup.cfg pyproject.toml
	$(call python313_needed,test-discrete-pymc6)
	$(call environment,$(VENV_DISCRETE),$(PYTHON313),discrete$(COMMA)test,"pymc>=6")

$(READY_MINIMUM): setup.cfg pyproject.toml .ci/minimum_versions.py
	$(PYTHON) -m venv --clear $(VENV_MINIMUM)
	$(PYTHON) .ci/minimum_versions.py > $(VENV_MINIMUM)/constraints.txt
	PYTHONWARNINGS=ignore::UserWarning $(VENV_MINIMUM)/bin/python -m pip install --quiet --constraint $(VENV_MINIMUM)/constraints.txt --editable ".[stan,report,test]"
	@touch $@

clean:
	rm -rf $(VENV) $(VENV313) $(VENV_DISCRETE) $(VENV_MINIMUM) docs/_build results .pytest_cache .mypy_cache .ruff_cache
