# `make demo` and `make test` set everything up by themselves; PIP_ARGS is passed on to pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --disable-pip-version-check -q $(PIP_ARGS) -c constraints.txt
DEMO := runs/demo
SITES := 8
WORKERS := $(shell getconf _NPROCESSORS_ONLN)

.PHONY: demo test test-simulator test-poc test-processes lint docs wheel sbom bench bench-speed install install-dev clean

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

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
	  -l site_configs/simulator_log.json -w $(DEMO)/workspace -t $(SITES)
	$(BIN)/fedannot simulate jobs/fedavg --data $(DEMO)/data --out $(DEMO)/fedavg
	$(BIN)/fedannot show $(DEMO)/workspace --data $(DEMO)/data --against $(DEMO)/fedavg --out $(DEMO)/feda3i

test: install-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# NVFlare's simulator with a process per site, and whole commands that are interrupted or killed: some minutes. They
# wait for processes part of their time, so there is one worker more than cores.
test-simulator: install-dev
	$(BIN)/python -m pytest -m simulator -n $$(($(WORKERS) + 1)) --dist worksteal

# Real processes of servers and sites, in a swarm and over TLS, some of which are killed or attacked: most of an hour.
test-processes: install-dev
	$(BIN)/python -m pytest -m processes tests/integration

# FedA3I, FedIA and FedGSCA from submission to the downloaded model, with a server and four sites: two minutes.
test-poc: install-dev
	$(BIN)/python -m pytest -m processes tests/integration/test_poc_processes.py

lint: install-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p fedannot.transforms -p fedannot.custom -p fedannot.apps

# The documentation site, in build/docs; a link that leads nowhere is an error. Half a minute.
docs: $(VENV)/.installed-docs
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

clean:
	rm -rf $(VENV) build dist runs
