# `make demo` and `make test` are all a newcomer needs: each installs what it needs into .venv, then runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DIST := worksteal
CODE := src tests benchmarks examples tools
INSTALL := $(BIN)/python -m pip install --constraint requirements/constraints.txt

.PHONY: demo test test-expensive test-mjlab test-isaaclab check format bench bench-mjlab clean

demo: $(VENV)/.demo
	$(BIN)/exploy demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 15 -m "not expensive"

# QUICK=1 leaves out further cases of what `make test` has one case of.
test-expensive: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 15 -m "expensive$(if $(QUICK), and not variant)"

# Tests with a simulator, in a venv of its own. QUICK=1 runs the cheap ones of the tasks that robots walk with.
QUICK_FILES := test_tasks test_mujoco_loop test_environment
test-mjlab test-isaaclab: test-%: $(VENV)-%/.ready
	WANDB_MODE=disabled MUJOCO_GL=disable $(VENV)-$*/bin/python -m pytest -n 2 --dist $(DIST) --durations 15 \
		$(if $(QUICK),-m "not expensive" $(wildcard $(QUICK_FILES:%=tests/simulators/$*/%.py)),tests/simulators/$*)

check: $(VENV)/.dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.export_time
	$(BIN)/python -m benchmarks.discovery
	$(BIN)/python -m benchmarks.evaluation
	$(BIN)/python -m benchmarks.controller_latency
	$(BIN)/python -m benchmarks.loop
	$(BIN)/python -m benchmarks.command_line
	$(BIN)/python -m benchmarks.backends
	$(BIN)/python -m benchmarks.c_programs

bench-mjlab: $(VENV)-mjlab/.ready
	WANDB_MODE=disabled MUJOCO_GL=disable $(VENV)-mjlab/bin/python -m benchmarks.mjlab_export

$(VENV)/.demo: pyproject.toml requirements/constraints.txt
	@echo "Installing exploy with what the demo needs (torch, onnx, a page for the report) into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) --editable '.[export,report]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo "Installing what the tests need (trainers, linters, other backends) into $(VENV)"
	$(INSTALL) --editable '.[dev]'
	# TorchRL's Resize calls torchvision, whose wheels ask for a torch of their own
	$(INSTALL) --no-deps torchvision
	touch $@

$(VENV)-%/.ready: pyproject.toml requirements/%.txt
	@echo "Installing exploy and the simulator $* into $(VENV)-$*"
	$(PYTHON) -m venv $(VENV)-$*
	$(VENV)-$*/bin/python -m pip install --constraint requirements/$*.txt --upgrade pip
	$(VENV)-$*/bin/python -m pip install --constraint requirements/$*.txt --editable '.[export,report]'
	$(VENV)-$*/bin/python -m pip install --no-deps --ignore-requires-python --requirement requirements/$*.txt
	touch $@

# The sources of Isaac Lab 2.3, which runs in Isaac Sim only; single files of it run alone.
$(VENV)-isaaclab/isaaclab-2.3: $(VENV)-isaaclab/.ready
	$(VENV)-isaaclab/bin/python -m pip install --no-deps --target $@ isaaclab==2.3.2
	touch $@

test-isaaclab: $(VENV)-isaaclab/isaaclab-2.3
test-isaaclab: DIST := loadfile  # a process can have one environment of Isaac Lab at a time

clean:
	rm -rf $(VENV) $(VENV)-mjlab $(VENV)-isaaclab .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
