# make demo     from nothing to the first real work: install, make the demo log, ingest it, train word vectors on it,
#               plan, build and search an index of it, train a rater, score the demo test file
# make test     all tests        make check   format, lint, types, imports, docs
# make bench    benchmarks       make faults  the long fault tests      make clean   remove what make made
#
# PYTHON=…      the interpreter to make .venv with      TORCH_INDEX=URL   a further package index, for a torch build of your own
# HYPOTHESIS_PROFILE=new   make test with other examples than the usual ones
# ONCE=1        make demo ends by itself: it always does, until there is a service to stay in the foreground

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(or $(REFAUG_HOME),refaug-data)/demo
PIP_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: demo test check format docs bench faults lock clean

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(PIP_INDEX) -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: $(VENV)/.installed
	$(BIN)/refaug demo-log --noise 0.03 --output $(DEMO)/demo-log.jsonl --items-output $(DEMO)/demo-items.jsonl
	$(BIN)/refaug ingest $(DEMO)/demo-log.jsonl --log demo --language en
	$(BIN)/refaug log stats demo
	$(BIN)/refaug log sample demo --count 5
	$(BIN)/refaug log shared demo --count 3
	$(BIN)/refaug vectors train demo
	$(BIN)/refaug index plan demo
	$(BIN)/refaug index build demo
	$(BIN)/refaug index search demo "Where can I buy a ticket for the bus?" -k 5
	$(BIN)/refaug rater train demo --preset small --epochs 3 --max-tokens 64
	$(BIN)/refaug rater report demo --index demo --to $(DEMO)/rater-report
	$(BIN)/refaug refs $(DEMO)/demo-items.jsonl --index demo --rater demo > $(DEMO)/weighted-items.jsonl
	$(BIN)/refaug score $(DEMO)/demo-items.jsonl --index demo --rater demo --metric upsilon-bleu --metric bleu --baseline generic --percent
	@echo "simulated ratings: this shows that the chain runs, not that a metric is good"
	$(BIN)/refaug meta $(DEMO)/weighted-items.jsonl --metric upsilon-bleu --metric bleu --metric chrf --metric rater --rater demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m service.cli.reference --check docs/reference/cli.md

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed
	$(BIN)/python -m service.cli.reference docs/reference/cli.md

bench: $(VENV)/.installed
	$(BIN)/python bench/bench_ingest.py
	$(BIN)/python bench/bench_metrics.py
	$(BIN)/python bench/bench_glove.py
	$(BIN)/python bench/bench_index.py
	$(BIN)/python bench/bench_rater.py

faults: $(VENV)/.installed
	$(BIN)/python -m pytest -m faults

lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet $(PIP_INDEX) torch==2.13.0
	build/lock/bin/pip install --quiet $(PIP_INDEX) -e ".[dev]"
	(sed -n '/^#/p' requirements.lock; build/lock/bin/pip freeze --all --exclude pip --exclude refaug \
		| grep -viE '^(nvidia-|triton)' | sed 's/+[a-z0-9.]*$$//' | sort -f) > build/requirements.lock
	mv build/requirements.lock requirements.lock

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
