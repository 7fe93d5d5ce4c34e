# `make train` on a bare machine sets everything up and trains a tiny model; `make test` tests it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests and training are repeatable only with a fixed number of threads; small models are faster with one.
export OMP_NUM_THREADS := 1
export HF_HUB_OFFLINE ?= 1
# Images of containers often set it; every process would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# For a machine without a network: the folder of its wheels, its Python and platform, and what it has (torch==2.10.0 …).
WHEELS ?=
PY ?= 3.12
PLATFORM ?= manylinux_2_28_x86_64
HAS ?=
FOR ?= gpu

.PHONY: setup train real test test-all check gpu wheels up down clean

setup: $(READY)

$(READY): pyproject.toml ares/setup.sh
	PYTHON=$(PYTHON) VENV=$(VENV) WHEELS=$(WHEELS) bash ares/setup.sh
	touch $@

train: $(READY)
	$(BIN)/ares train tiny-math --run tiny-math

# Four workers for two cores: tests often wait for a service or a process.
PYTEST := $(BIN)/pytest -n 4 --dist loadgroup --no-loadscope-reorder -rs

# A published model with 135 million parameters learns sums: 13 s a step on two idle cores.
SMOLLM2 := examples/smollm2/checkpoint
real: $(READY) $(SMOLLM2)/config.json
	$(BIN)/ares train smollm2 --run smollm2

$(SMOLLM2)/config.json: | $(READY)
	bash examples/smollm2/fetch.sh $(BIN) $(SMOLLM2)

test: $(READY)
	$(PYTEST) -m "not slow and not gpu"

test-all: $(READY)
	$(PYTEST)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

gpu:
	@PYTHON=$(PYTHON) VENV=$(VENV) WHEELS=$(WHEELS) TINY=$(TINY) OUT=$(OUT) bash ares/gpu.sh

wheels:
	@PYTHON=$(PYTHON) WHEELS=$(WHEELS) FOR=$(FOR) PY=$(PY) PLATFORM=$(PLATFORM) HAS="$(HAS)" bash ares/wheels.sh

up: $(READY)
	$(BIN)/ares up

down: $(READY)
	$(BIN)/ares down

clean:
	rm -rf $(VENV) .gpu-packages .wheels-tools .pytest_cache .mypy_cache .ruff_cache .hypothesis
