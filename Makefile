# Thin names for commands; the work is in `python -m harness` and in .ci/. See README.md.
#
#   make bench WORKLOAD=resnet50 TREATMENTS="amp_bf16 amp_bf16+torch_compile(mode=default)" BUDGET=10m
#
# PYTHON=python3 uses that interpreter with what it has installed: no .venv is made, nothing is installed.

PY := $(or $(PYTHON),.venv/bin/python)
READY := $(if $(PYTHON),,.venv/.complete)

# The variables reach the commands through the environment: parentheses in a treatment would break an unquoted shell word.
export WORKLOAD TREATMENTS PRESET MODE PROTOCOL BUDGET DATA DEVICE INPUT SEED RESULTS REPORTS ARTICLE OUT MAX_BLOCKS

.PHONY: help setup bench matrix claims gpu-check report test test-all lint clean

help: $(READY)
	@$(PY) -m harness --help

setup: $(READY)

.venv/.complete: pyproject.toml constraints.txt .ci/setup.sh
	@bash .ci/setup.sh

bench: $(READY)
	@$(PY) -m harness bench

matrix: $(READY)
	@$(PY) -m harness matrix

claims: $(READY)
	@$(PY) -m harness claims

gpu-check: $(READY)
	@$(PY) -m harness gpu-check

report: $(READY)
	@$(PY) -m harness report

test: $(READY)
	@$(PY) -m pytest

test-all: $(READY)
	@$(PY) -m pytest -m "full or not full"

lint: $(READY)
	@bash .ci/lint.sh $(PY)

# Leaves results/, reports/ and the environment.
clean:
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
