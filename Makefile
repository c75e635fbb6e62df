# Every task of the project; `make help` lists them. All set-up happens in .venv.
PYTHON ?= python3
BIN := .venv/bin
export TF_CPP_MIN_LOG_LEVEL ?= 2
# On CPUs with AVX-512 oneDNN of TensorFlow 2.21 computes some ops wrongly (AddN of one tensor three times yields it once).
unit test-all: export TF_ENABLE_ONEDNN_OPTS ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-matrix lint types layers unit format house walks bench bench-gpu bench-accuracy bench-jax mutants peers zoo audit pictures docs clean

help: ## list the tasks
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mixdown needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: .venv/.ready ## install, then show bad batches, memory, accuracy, speed, and times predicted for GPUs
	@$(BIN)/python -m mixdown demo

test: lint ## install, then lint, types, layers and the quick tests; the last three side by side
	@$(MAKE) --no-print-directory --jobs=2 unit types layers

test-all: lint types layers ## everything, the slow tests included, with coverage
	$(BIN)/python -m pytest -n 2 --dist loadfile --hypothesis-profile=searching --cov --cov-report=
	$(BIN)/coverage report --skip-covered --include='*/core/*,*/scaling/*' --fail-under=100
	$(BIN)/coverage report --format=total --fail-under=92

MATRIX := tests/tensorflow/calls tests/tensorflow/sessions tests/tensorflow/shapes tests/tensorflow/test_enable.py \
	tests/tensorflow/test_compat.py tests/tensorflow/explaining/test_planned_graphs.py

test-matrix: ## what hooks into TensorFlow, on 2.16, 2.18, 2.20 and 2.21, and what runs on JAX, on 0.7, 0.9 and 0.10
	@for version in 2.16 2.18 2.20 2.21 jax-0.7 jax-0.9 jax-0.10; do $(MAKE) --no-print-directory .venv-$$version/tested || exit 1; done

.venv-%/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-$*/bin/python -m pip install --quiet --editable '.[test]' 'tensorflow-cpu==$*.*' 'tf_keras==$*.*' 'protobuf<7' # older releases write graphs with a protobuf of their time
	@touch $@

.venv-%/tested: .venv-%/.ready
	@echo "TensorFlow $*:"
	.venv-$*/bin/python -m pytest -q -n 2 --dist loadfile -m 'not slow' $(MATRIX)

.venv-jax-%/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-jax-$*
	.venv-jax-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-jax-$*/bin/python -m pip install --quiet --editable '.[test,jax-test]' 'jax==$*.*'
	@touch $@

.venv-jax-%/tested: .venv-jax-%/.ready
	@echo "JAX $*:"
	.venv-jax-$*/bin/python -m pytest -q -n 2 --dist loadfile -m 'not slow' tests/jax

lint: .venv/.ready ## ruff: format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.ready ## mypy, strict
	$(BIN)/mypy

layers: .venv/.ready ## import-linter: imports go one way
	$(BIN)/lint-imports

unit: .venv/.ready ## pytest without the slow tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

format: .venv/.ready ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

house: .venv/.ready ## measure the source: sizes, import cycles, names and lines that stand twice, the cost of an import
	@$(BIN)/python tools/house.py

walks: .venv/.ready ## print which packages a call, a rewrite, a training step, a session and a conversion pass through
	@$(BIN)/python tools/walks.py

bench: .venv/.ready ## print every benchmark's table of ratios
	@for script in traffic plan_time scaler_overhead accounting_overhead call_overhead peak_memory step_time numerics_cost page_open first_step; do $(BIN)/python benchmarks/$$script.py || exit 1; done

.venv-gpu/.ready: Makefile
	$(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet --upgrade pip
	.venv-gpu/bin/python -m pip install --quiet 'jax==0.10.2' 'jax-cuda12-plugin==0.10.2' 'jax-cuda12-pjrt==0.10.2' nvidia-cuda-nvcc-cu12
	@touch $@

bench-gpu: .venv/.ready .venv-gpu/.ready ## what XLA compiles for A100 and H100, in bytes; needs no GPU
	@$(BIN)/python benchmarks/xla_gpu/table.py

bench-accuracy: .venv/.ready ## errors of the gradients of the same models against float64, ours beside Keras's; takes half an hour
	@$(BIN)/python benchmarks/xla_gpu/accuracy.py

.venv-gpu/.jax: .venv-gpu/.ready
	.venv-gpu/bin/python -m pip install --quiet flax optax equinox
	@touch $@

bench-jax: .venv-gpu/.jax ## what XLA compiles JAX programs to for A100, in bytes, their errors against float64, and planning time; needs no GPU
	@for script in jax_bytes jax_errors jax_plan_time; do .venv-gpu/bin/python benchmarks/$$script.py || exit 1; done

mutants: .venv/.ready ## break core/ and scaling/ in 150 places, one at a time, and count who notices
	@$(BIN)/python benchmarks/mutants.py

peers: .venv/.ready ## compare with TensorFlow's own call and Keras's policies; rewrites docs/peers.md
	$(BIN)/python benchmarks/peers.py

zoo: .venv/.ready ## run third-party programs in float32 and mixed; takes half an hour and rewrites docs/zoo.md
	$(BIN)/python benchmarks/zoo/runner.py

audit: .venv/.ready ## look up what is installed in the databases of known vulnerabilities; needs the network
	test -x .venv-audit/bin/pip-audit || ($(PYTHON) -m venv .venv-audit && .venv-audit/bin/pip install --quiet pip-audit)
	.venv-audit/bin/pip-audit --strict --path "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

pictures: .venv/.ready ## take the pictures of the documentation anew; needs Chromium
	@$(BIN)/python tools/pictures.py

docs: .venv/.ready ## build the documentation into docs/_build; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build

clean: ## remove the environment and all caches
	rm -rf docs/_build .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
