# Needs Python 3.11 or newer, a C++ compiler and make; all else comes with the install.
#
#   make demo      forecast a bundled series and show what came out
#   make test      all tests                     (ARGS="-k scan -x" goes to pytest)
#   make check     style, types, import directions
#   make sanitize  the CPU kernels under sanitizers of memory and of undefined behaviour
#   make bench     speed of the kernels on this machine
#   make bench-forecast  errors of the forecaster and of its rivals; goes on where it stopped
#   make bench-anomaly   how well anomalies are found, beside other methods; goes on, too
#   make bench-logs      what is found in logs, and how fast they are read
#   make bench-ehr       risks and next values of hospital stays, beside other methods; goes on, too
#   make pretrain  train the corrector that comes with the package anew
#   make gpu-check the GPU kernels on this machine's CUDA device: right, and how fast
#   make install   what the others do first, in .venv
#   make clean     remove .venv, builds and caches
#
#   PYTHON=python3.12    which interpreter makes the environment
#   TORCH_INDEX=URL      where pip takes torch from, to choose its CPU or a CUDA build

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
TORCH_INDEX ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
SANITIZED := build/sanitized
SOURCES := pyproject.toml constraints.txt kernels/CMakeLists.txt $(wildcard kernels/csrc/*)

.DEFAULT_GOAL := help
.PHONY: help install demo test check sanitize bench bench-forecast bench-anomaly bench-logs bench-ehr pretrain \
    gpu-check clean

help:
	@sed -n 's/^#   //p' Makefile

install: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/python examples/01_forecast.py

test: $(INSTALLED)
	$(BIN)/pytest $(ARGS)

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The package once more, aside, for the sake of its library.
sanitize: $(INSTALLED)
	$(PIP) install --quiet --no-deps --upgrade --target $(SANITIZED) \
	    --config-settings build-dir=build/sanitize --config-settings install.strip=false \
	    --config-settings cmake.define.TSMAMBA_SANITIZE=ON .
	$(BIN)/python tests/kernels/sanitize.py $(SANITIZED)/tsmamba_kernels/_tsm_cpu.abi3.so

bench: $(INSTALLED)
	$(BIN)/python kernels/benchmarks/bench.py $(ARGS)

# A cell that failed is in the results, and the report has to say so.
bench-forecast: $(INSTALLED)
	-$(BIN)/python -m benchmarks.forecast run $(ARGS)
	$(BIN)/python -m benchmarks.forecast report

bench-anomaly: $(INSTALLED)
	-$(BIN)/python -m benchmarks.anomaly run $(ARGS)
	$(BIN)/python -m benchmarks.anomaly report

bench-logs: $(INSTALLED)
	$(BIN)/python -m benchmarks.logs.templates
	$(BIN)/python -m benchmarks.logs.reading
	$(BIN)/python -m benchmarks.logs.sessions $(ARGS)
	$(BIN)/python -m benchmarks.logs.faults
	$(BIN)/python -m benchmarks.logs.swaps

bench-ehr: $(INSTALLED)
	-$(BIN)/python -m benchmarks.records run $(ARGS)
	-$(BIN)/python -m benchmarks.records forecast
	$(BIN)/python -m benchmarks.records report

pretrain: $(INSTALLED)
	$(BIN)/python -m tools.pretrain --out tsmamba/forecast/weights/corrector.safetensors $(ARGS)

gpu-check: $(INSTALLED)
	$(BIN)/python kernels/benchmarks/gpu_check.py $(ARGS)

clean:
	rm -rf $(VENV) build dist .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tsmamba needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# torch goes first and alone: a later step that finds it in place never asks for another build.
$(INSTALLED): $(SOURCES) | $(BIN)/python
	$(PIP) install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -c constraints.txt torch
	$(PIP) install --quiet -c constraints.txt -e '.[dev,bench,datasets]'
	@touch $@
