# `make demo` and `make test` are all a newcomer needs: each builds .venv on a fresh machine, then runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test check format bench clean

demo: $(INSTALLED)
	$(BIN)/exploy demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2

check: $(INSTALLED)
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix src tests benchmarks examples
	$(BIN)/ruff format src tests benchmarks examples

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.export_time
	$(BIN)/python -m benchmarks.controller_latency
	$(BIN)/python -m benchmarks.command_line
	$(BIN)/python -m benchmarks.backends

$(INSTALLED): pyproject.toml requirements/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint requirements/constraints.txt --editable '.[dev]'
	# TorchRL's Resize calls torchvision, whose wheels ask for a torch of their own
	$(BIN)/python -m pip install --quiet --no-deps --constraint requirements/constraints.txt torchvision
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
