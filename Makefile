# Two commands for newcomers: `make demo` and `make test`. Both make their own .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test lint types unit coverage docs results oldest wheel clean install

install: $(VENV)/.installed

# torch first and by exact version: the CPU build is enough, a bare `torch` pulls the CUDA packages.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/sodgp demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache

types: install
	$(BIN)/mypy

unit: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: lint types unit

# The tests once more, with the share of src/ that they run.
coverage: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov=sodgp --cov-report=term:skip-covered

# The pages in site/, to be opened with a browser; a warning is an error.
docs: install
	$(BIN)/python -m zensical build --strict --clean

# Every table and picture of results in README and docs, from the cells in benchmarks/results.
results: install
	$(BIN)/python docs/make_results.py

# The tests with the oldest versions that pyproject.toml admits. An old torch brings the CUDA packages: 3 GB to fetch.
# Old packages warn about the new ones below them, so warnings are no errors here.
oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	$(PYTHON) tools/oldest.py > .venv-oldest/oldest.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -r .venv-oldest/oldest.txt \
	  pytest pytest-xdist hypothesis beartype
	OMP_NUM_THREADS=1 PYTHONPATH=src .venv-oldest/bin/python -m pytest -n $(JOBS) --dist worksteal \
	  -o filterwarnings=default --disable-warnings

# The wheel in an empty environment, far from the repository.
wheel:
	$(PYTHON) tools/check_wheel.py

clean:
	rm -rf .venv-oldest $(VENV) build dist .mypy_cache .ruff_cache sodgp-demo site
