# Everything happens in .venv, made from the lock file; nothing else on the machine is touched.
# `make` alone lists the targets. Extra arguments go into ARGS: make test-fast ARGS="-k planner -x"

VENV := .venv
BIN  := $(VENV)/bin
# The Python of .venv, or the one with which it will be made; each has a lock file of its own.
PYTHON_VERSION := $(or $(shell sed -n 's/^version[_a-z]* *= *\([0-9]*\.[0-9]*\).*/\1/p' $(VENV)/pyvenv.cfg 2>/dev/null), \
                       $(shell "$$(scripts/preflight.sh 2>/dev/null || echo false)" -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
PYTHONS := 3.11 3.12 3.13
LOCK := constraints/python-$(PYTHON_VERSION).txt
LOWEST := constraints/lowest-python-3.11.txt
UV   := uv==0.13.8
ARGS ?=

# Tests run in two processes; ARGS="-n 0 --pdb" runs them in one, to debug. tests/selection.py decides on the order.
SIDE_BY_SIDE := --numprocesses=2 --dist=loadfile --no-loadscope-reorder
# One of three waits for Spark, for Airflow or for a page.
SLOW_SIDE_BY_SIDE := --numprocesses=3 --dist=loadfile --no-loadscope-reorder
SLOWEST := --durations=10
# All tests in these folders are slow, and collecting them alone takes long.
WITHOUT_SPARK := --ignore=tests/integration --ignore=tests/system

# Its banner is about another project.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

CODE  = $(wildcard airflow_backfill_provider spark_apps dags docs scripts demo bench faults tests)

# One Spark (that of .venv), one Python, an Airflow home of our own, and UTF-8 file names for the JVM.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_LOCAL_IP ?= 127.0.0.1
export LC_ALL := C.UTF-8
export AIRFLOW_HOME := $(CURDIR)/.airflow
# libpq's variables (PGHOST, PGSSLMODE, ...) are about another database.
unexport PYTHONHOME PYTHONPATH $(filter AIRFLOW__% AIRFLOW_CONN_% AIRFLOW_VAR_% PG%,$(.VARIABLES))
# Keep the compiled tests: compiling them takes pytest as long as the rest of the collection.
unexport PYTHONDONTWRITEBYTECODE
unexport SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE PYSPARK_SUBMIT_ARGS PYSPARK_DRIVER_PYTHON_OPTS

.PHONY: help install demo demo-cdc demo-source airflow test test-fast test-slow test-smoke test-other-pythons test-exhaustive coverage s3-server check check-format \
        check-lint check-imports check-types check-hooks check-docs check-seconds check-dependencies check-lowest imports-and-fast-tests format \
        bench bench-quick faults faults-full mutation docs lock dist clean
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; \
	do printf '  make %-16s %s\n' "$$target" "$$text"; done

install: $(VENV)/.project $(VENV)/.jars $(VENV)/.log-store ## set up .venv with everything, including Spark's jars for Delta

$(VENV)/.python: | scripts/preflight.sh
	python=$$(scripts/preflight.sh) && "$$python" -m venv $(VENV)
	@touch $@

# The locked pip first: Python's bundled pip looks for extras ("coverage[toml]") beyond the versions of the lock file.
$(VENV)/.packages: $(LOCK) $(VENV)/.python
	sed -n '/^pip==/,/[^\]$$/p' $(LOCK) >$(VENV)/pip.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/pip.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --use-pep517 --require-hashes --requirement $(LOCK)
	$(BIN)/python scripts/check_spark.py
	@touch $@

$(VENV)/.project: pyproject.toml $(VENV)/.packages
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
	@touch $@

$(VENV)/.jars: airflow_backfill_provider/applications/jars.py scripts/fetch_broker_jars.py $(VENV)/.project
	$(BIN)/airflow-backfill fetch-jars
	$(BIN)/python -m scripts.fetch_broker_jars
	@touch $@

$(VENV)/.log-store: airflow_backfill_provider/log_store/ConditionalLogStore.scala $(VENV)/.jars
	@# The command that fetches the jars builds it, too, but does not replace one that is older than its source.
	[ $(VENV)/share/airflow-backfill/jars/airflow-backfill-log-store.jar -nt $< ] || $(BIN)/airflow-backfill build-log-store
	@touch $@

s3-server: $(VENV)/.packages
	@scripts/install_s3_server.sh $(VENV)/share/airflow-backfill

demo: install $(if $(findstring --store s3,$(ARGS)),s3-server) ## show a running backfill: Airflow, Spark and a writer that never stops
	$(BIN)/python -m demo $(ARGS)

demo-cdc: install ## the same over a table in a real PostgreSQL 15, which apt-get installs if it is missing
	scripts/install_postgres.sh
	$(BIN)/python -m demo.cdc $(ARGS)

demo-source: install ## the same over a topic in a real Kafka broker
	$(BIN)/python -m demo.source $(ARGS)

airflow: install ## run Airflow with the example DAGs and a demo upstream, until Ctrl-C
	$(BIN)/python -m demo.playground

test: test-fast test-slow ## run the tests, the fast ones first

test-fast: install ## run only the tests that are not marked slow
	$(BIN)/python -m pytest -m "not slow" $(WITHOUT_SPARK) $(SIDE_BY_SIDE) $(SLOWEST) $(ARGS)

$(VENV)/.local-files: tests/LocalFiles.scala tests/local_files.py $(VENV)/.jars
	@# Another Python of this machine may have built it.
	[ $(VENV)/share/airflow-backfill/tests/local-files.jar -nt $< ] || $(BIN)/python -m tests.local_files
	@touch $@

$(VENV)/.classes: scripts/archive_classes.py $(VENV)/.jars
	$(BIN)/python scripts/archive_classes.py
	@touch $@

test-slow: install s3-server $(VENV)/.local-files ## run only the tests that are marked slow
	$(BIN)/python -m pytest -m "slow and not exhaustive" $(SLOW_SIDE_BY_SIDE) $(SLOWEST) $(ARGS)

test-smoke: install $(VENV)/.local-files ## run one test each of Spark, Airflow, PostgreSQL, Kafka and the wheel
	$(BIN)/python -m pytest -m smoke $(SLOW_SIDE_BY_SIDE) $(SLOWEST) $(ARGS)

test-other-pythons: install ## run the fast tests and the smoke tests on the other Pythons of this machine
	scripts/test_other_pythons.sh $(VENV) $(PYTHON_VERSION) $(PYTHONS)

test-exhaustive: install s3-server $(VENV)/.classes $(VENV)/.local-files ## run the tests that `make test` leaves out, for a release; hours
	$(BIN)/python -m pytest -m exhaustive $(SLOW_SIDE_BY_SIDE) $(SLOWEST) $(ARGS)

coverage: install ## measure the core's branch coverage with the fast tests
	$(BIN)/python -m pytest -m "not slow" --cov --cov-report=term-missing:skip-covered $(ARGS)

check: check-format check-lint check-imports check-types check-hooks check-docs check-seconds check-dependencies ## check format, lint, imports, types, docs, tests' seconds, dependencies

check-format: install ## check that the code is formatted
	$(BIN)/ruff format --check $(CODE)

check-lint: install ## run the linter
	$(BIN)/ruff check $(CODE)

check-imports: install ## check the import contracts between the packages
	$(BIN)/lint-imports

check-types: install ## run the type checker
	$(BIN)/mypy $(CODE)

check-hooks: install ## check that the commit hooks run the three targets above
	$(BIN)/pre-commit validate-config .pre-commit-config.yaml
	@for target in check-format check-lint check-types; do grep -qx " *entry: make $$target" .pre-commit-config.yaml \
	  || { echo ".pre-commit-config.yaml lacks \"entry: make $$target\"" >&2; exit 1; }; done

check-docs: install ## build the documentation's site strictly, into a temporary folder
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(MKDOCS) build --quiet --site-dir "$$folder"

check-seconds: install ## check that no file of tests takes longer than its budget, by the record in tests/seconds.json
	$(BIN)/python -m tests.seconds

check-dependencies: install ## check the lock file, and audit it (REQUIRE_AUDIT=1 fails if no service answers)
	$(BIN)/python scripts/check_dependencies.py

check-lowest: ## install the lowest versions allowed into a .venv of their own, import everything, run the fast tests
	$(MAKE) --no-print-directory VENV=$(VENV)-lowest LOCK=$(LOWEST) imports-and-fast-tests

imports-and-fast-tests: $(VENV)/.project
	$(BIN)/python scripts/import_all.py
	$(BIN)/python -m pytest -m "not slow" $(WITHOUT_SPARK) $(SIDE_BY_SIDE) $(SLOWEST) $(ARGS)

format: install ## format the code and fix what the linter can fix
	$(BIN)/ruff check --fix --exit-zero --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

bench: install $(VENV)/.classes ## run all benchmarks (hours), or one: ARGS=targets
	$(BIN)/python -m bench $(ARGS)

bench-quick: install $(VENV)/.classes ## compare with a plain copy and other tools on a small upstream, in minutes
	$(BIN)/python -m bench quick

faults: install ## inject faults and check the results (ARGS=campaign, seed, case: see docs/faults.md)
	$(BIN)/python -m faults $(ARGS)

faults-full: install ## inject as many faults as a release needs (hours)
	$(BIN)/python -m faults --full $(ARGS)

mutation: install ## mutation testing of the pure modules (hours; ARGS=planner for one)
	$(BIN)/python -m faults.mutation $(ARGS)

docs: install ## build the documentation's site: open site/index.html, no network is needed
	$(MKDOCS) build --quiet
	@echo "file://$(CURDIR)/site/index.html"

lock: ## write the lock files and the lowest set anew (ARGS=--upgrade for newer versions)
	scripts/lock.sh $(UV) "$(PYTHONS)" $(ARGS)

dist: install ## build the wheel and the source distribution into dist/
	$(BIN)/python -m build --no-isolation

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) $(VENV)-* .airflow .demo .demo-cdc .demo-source .bench .faults mutants build dist site htmlcov .coverage .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
