# `make demo` and `make test` set everything up by themselves; PIP_ARGS is passed on to pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --disable-pip-version-check -q $(PIP_ARGS) -c constraints.txt
DEMO := runs/demo
SITES := 8
WORKERS := $(shell getconf _NPROCESSORS_ONLN)

# The rooms in which another version of a package, or of Python, shows first.
FAST_TESTS := tests/transforms tests/custom/aggregation tests/custom/networks tests/custom/outbound tests/custom/test_settings.py \
  tests/apps/commands tests/apps/importing tests/apps/runs/test_job.py tests/integration/test_empty_cases.py
LOWEST := build/lowest

.PHONY: demo test test-fast test-lowest test-simulator test-poc test-processes lint docs wheel sbom bench bench-speed bench-gpu install install-dev install-docs clean

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

install-docs: $(VENV)/.installed-docs

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

# The path of src is what is installed: a new file needs no new installation.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP) torch
	$(PIP) -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[dev]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e '.[docs]'
	touch $@

# A federation with badly drawn contours: FedA3I under NVFlare's simulator with a process per site, and FedAvg in-process.
demo: install
	rm -rf $(DEMO)
	$(BIN)/fedannot data phantom --task lesions2d --sites $(SITES) --noise "M(25,-25,10,0.25)" --exact --stratified 0.5 \
	  --seed 0 --out $(DEMO)/data
	FEDANNOT_DATA=$(CURDIR)/$(DEMO)/data $(BIN)/nvflare simulator jobs/fedaaai \
	  -l site_configs/simulator_log.json -w $(DEMO)/workspace -n $(SITES) -t $(SITES)
	$(BIN)/fedannot simulate jobs/fedavg --data $(DEMO)/data --out $(DEMO)/fedavg
	$(BIN)/fedannot show $(DEMO)/workspace --data $(DEMO)/data --against $(DEMO)/fedavg --out $(DEMO)/feda3i

test: install-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Two minutes. Another Python: make test-fast PYTHON=python3.12 VENV=build/python3.12
test-fast: install-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(FAST_TESTS)

# The same tests on the lowest versions that pyproject.toml claims; of PyTorch the tested one, others being gigabytes.
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(FAST_TESTS)

$(LOWEST)/.installed: pyproject.toml constraints.txt tests/lowest_versions.py | $(VENV)/.installed
	$(PYTHON) -m venv --clear $(LOWEST)
	$(BIN)/python tests/lowest_versions.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/pip install --disable-pip-version-check -q $(PIP_ARGS) -c $(LOWEST)/lowest.txt torch
	$(LOWEST)/bin/pip install --disable-pip-version-check -q $(PIP_ARGS) -c $(LOWEST)/lowest.txt -e '.[dicom,hdf5,xlsx]' \
	  pytest pytest-xdist hypothesis scikit-learn selenium
	touch $@

# NVFlare's simulator with a process per site, and whole commands that are interrupted or killed: some minutes. They
# wait for processes part of their time, so there is one worker more than cores.
test-simulator: install-dev
	$(BIN)/python -m pytest -m simulator -n $$(($(WORKERS) + 1)) --dist worksteal

# Real processes of servers and sites, in a swarm and over TLS, some of which are killed or attacked: most of an hour.
test-processes: install-dev
	$(BIN)/python -m pytest -m processes tests/integration

# FedA3I, FedIA, FedGSCA and auto from submission to the downloaded model, with a server and four sites: three minutes.
# Some: make test-poc METHODS="fedia or auto".
test-poc: install-dev
	$(BIN)/python -m pytest -m processes -k "$(METHODS)" tests/integration/test_poc_processes.py

lint: install-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p fedannot.transforms -p fedannot.custom -p fedannot.apps

# The documentation site, in build/docs; a link that leads nowhere is an error. Half a minute.
docs: install-docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site -d build/doctrees . build/docs

# The wheel of the last commit and its SHA-256, in dist; the same bits from the same commit. No index has it.
wheel: install
	sh release/wheel.sh $(BIN)/python dist

# What fedannot needs, with licences, in build/sbom; fails on what is not in constraints.txt, or may not be handed out.
sbom: install-dev $(VENV)/.installed-docs
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python release/sbom.py build/sbom

# Long: the comparisons that docs/benchmarks reports; each row once, an interrupted table goes on.
bench: install-dev
	$(BIN)/fedannot bench feda3i

# The table of docs/benchmarks/speed.md, in runs/bench/speed.
bench-speed: install-dev
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks/speed

# On a machine with an NVIDIA GPU, in ten minutes: site-epochs/s, utilisation and memory beside a plain loop.
bench-gpu: install-dev
	$(BIN)/python -m pytest -n 0 -m benchmark -s tests/benchmarks/speed/test_gpu_speed.py

clean:
	rm -rf $(VENV) build dist runs
