# Two commands: `make lab` opens the workbook, `make test` tests the package. Both set up what is missing and are quick the
# second time. Needed: Linux x86-64, Python 3.11 to 3.13 with venv, g++ and make.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
NATIVE := $(shell find native CMakeLists.txt -type f 2>/dev/null)
# The environment knows each module by its file, so one that became a package is found only after another installation.
PACKAGES := $(shell find ctrlab -name __init__.py)
CPP    := $(filter %.c %.cc %.h %.cu %.cuh,$(NATIVE))
SANITIZED := tests/native tests/cuda
# Of one file in one process, longest files first (tests/slow.txt).
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
# One lesson, or all; for example LESSON=02_ops/04_fused_gru.
LESSON  =
# Lessons at the profile `lesson`: a part of all, such as 2/6, or some by name, or both.
PART    = $(if $(LESSON),,1/1)
# nbval knows no parameters, so the profile comes from the environment; a learner's own progress is not touched.
WALK    = rm -rf build/walks && $(BIN)/python -m tests.notebooks.walk build/walks $(1) && \
	CTRLAB_PROFILE=tiny CTRLAB_WORK=$$(mktemp -d) $(BIN)/pytest -q -n 2 --dist loadfile -p no:cacheprovider --timeout=0 \
	--nbval-lax --nbval-cell-timeout=120 build/walks/*/*.ipynb

export TF_CPP_MIN_LOG_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: wheel docs lab test test-all test-quick test-long test-studies test-gpu test-python test-native test-notebooks test-lessons lint setup clean help

help:
	@echo "make lab    set up, then open the workbook in JupyterLab"
	@echo "make test   set up, then lint, the quick tests, a smoke of the commands and one lesson"
	@echo "make test-python  all tests in Python but those of make test-long and make test-studies"
	@echo "make test-all   everything but the long tests: what CI runs"
	@echo "make test-native  the C++ and CUDA code under sanitizers"
	@echo "make test-notebooks  every lesson, as its learner walks through it; or one, LESSON=02_ops/04_fused_gru"
	@echo "make test-lessons  every solved lesson at the size that learners have; or a part of them, PART=2/6, or one, LESSON=..."
	@echo "make test-long  the tests that take many minutes: processes killed by the hundred, inputs drawn by the million"
	@echo "make test-studies  what measures and compares: the tests of studies/"
	@echo "make test-gpu   the CUDA kernels against float64, then beside torch; writes data/measurements/gpu.json"
	@echo "make docs   guides and the API reference, as pages in docs/build/html"
	@echo "make wheel  dist/ctrlab-*.whl, for other x86-64 machines with this Python and TensorFlow"
	@echo "make clean  remove the virtual environment, builds and caches"

lab: setup
	$(BIN)/ctrlab data generate all --profile lesson
	$(BIN)/ctrlab lab

test: lint test-quick
	$(call WALK,02_ops/01_indicator_column)
	@echo "All passed."

test-all: lint test-python test-native test-notebooks
	@echo "All passed."

test-long: setup
	$(BIN)/pytest -q -m long --timeout=0

test-studies: setup
	$(BIN)/pytest -q $(PARALLEL) -m "not long" tests/studies

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run --Werror $(CPP)

# What tests/slow.txt lists is left out; see tests/durations.py.
test-quick: setup
	$(BIN)/pytest -q $(PARALLEL) --quick $(SANITIZED:%=--ignore=%)

test-python: setup
	$(BIN)/pytest -q $(PARALLEL) --hold-durations $(SANITIZED:%=--ignore=%)

test-native: setup
	$(BIN)/pytest -q $(PARALLEL) $(SANITIZED)

test-notebooks: setup
	$(call WALK,$(LESSON))

test-lessons: setup
	$(BIN)/python -m tests.notebooks.at_lesson $(PART) $(LESSON)

setup: $(VENV)/.built

$(VENV)/.locked: requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.13 with venv is needed and none was found; install python3 and python3-venv, or name one: make PYTHON=/path/to/python3.12"; exit 1; }
	@command -v g++ >/dev/null || { echo "A C++20 compiler is needed and g++ was not found; install it, e.g. apt-get install g++"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.lock
	touch $@

$(VENV)/.built: $(VENV)/.locked pyproject.toml $(NATIVE) $(PACKAGES)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# No setup: a machine with a GPU often has torch or CuPy, numpy and rich, and no TensorFlow.
test-gpu:
	mkdir -p data/measurements
	$(PYTHON) -m ctrlab.cuda --out data/measurements/gpu.json

docs: setup
	$(BIN)/sphinx-build -q -W --keep-going docs docs/build/html
	@echo "Open docs/build/html/index.html"

# For other machines: its kernels are there for each level of x86-64, and the loader takes the best that a CPU can run.
wheel: setup
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -C cmake.define.CTRLAB_PORTABLE=ON \
		-C build-dir=build/portable-{wheel_tag} -w dist .

clean:
	rm -rf $(VENV) build dist docs/build docs/reference .pytest_cache .ruff_cache .hypothesis data/cache
