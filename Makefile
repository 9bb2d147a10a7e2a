# Two commands are all that is needed: `make demo` and `make test`.
# The plain commands they run are in docs/internals/running.md.

# Each Django has a virtual environment and a constraints file of its own:
# `make test DJANGO=61` is the same suite on Django 6.1 (Python >= 3.12), and with
# TESTS=tests/backend a part of it.
DJANGO ?= 52
ifeq ($(DJANGO),52)
VENV ?= .venv
OLDEST = 11
# In this one the pipeline is tested, too.
TESTED = $(INSTALLED_ALL)
else
VENV ?= .venv-$(DJANGO)
OLDEST = 12
TESTED = $(INSTALLED)
endif
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, $(OLDEST)))' 2>/dev/null \
	&& echo $$python && break; done)
# Every release with its hashes: of what `make test` needs, and of what all targets need.
REQUIREMENTS = requirements/django$(DJANGO).txt
ALL_REQUIREMENTS = requirements/django$(DJANGO)-all.txt
RUN = $(VENV)/bin/python
# Tests start hundreds of processes: each would compile what it imports, a third of its start.
unexport PYTHONDONTWRITEBYTECODE
# Where uv is installed it takes the place of pip: the same releases, in a tenth of the time.
UV := $(shell command -v uv)
PIP = $(if $(UV),$(UV) pip install --python $(1)/bin/python --quiet,$(1)/bin/python -m pip install --quiet --disable-pip-version-check)
# Written last, so that an installation which was killed is begun afresh.
INSTALLED = $(VENV)/installed
INSTALLED_ALL = $(VENV)/installed-all
# Other queues, on the newest Python there is: pyenv's are not on PATH as such.
PEERS_VENV = .venv-peers
PEERS_INSTALLED = $(PEERS_VENV)/installed
PEERS_PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 \
	"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3 python3 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

.PHONY: demo history test test-slow test-nightly test-postgres test-wal test-spark test-browser test-celery test-orchestrators model fuzz chaos soak prove prove-mutations prove-peers mixed-fleet interleave bench bench-smoke bench-peers bench-neutral docs messages audit dist lint types imports migrations check constraints clean

# With SPARK=1 a report about it follows, which needs no Java on the machine.
demo: $(if $(SPARK),$(INSTALLED_ALL),$(INSTALLED))
	$(RUN) manage.py demo
	$(if $(SPARK),$(RUN) manage.py pgqueue_report --html report.html)

# WORKERS processes, each with databases of its own; WORKERS=0 runs all tests in one process. OPTIONS are those
# of pytest: what PYTEST_ADDOPTS says is heard by the runs that tests start themselves, too.
WORKERS ?= 3
PYTEST = $(RUN) -m pytest -n $(WORKERS) --dist loadgroup $(OPTIONS)

test: $(TESTED)
	$(PYTEST) $(TESTS)

# The rest of the suite: what starts many processes or servers, what walks through all pages, commands, statements or formats
# of a lake, and what reads millions of rows. What is marked `smoke` is run by bench-smoke.
test-slow: $(TESTED)
	$(PYTEST) -m "slow and not spark and not smoke and not nightly" $(TESTS)

# What repeats a promise that a faster test holds already, at more depth, and what costs most.
test-nightly: $(INSTALLED_ALL)
	$(PYTEST) -m "nightly and not chaos" $(TESTS)

# The suite on a throwaway server of another version: VERSION=15 or 16.
test-postgres: $(TESTED)
	$(RUN) -m pgqueue.embedded --version $(VERSION) --set wal_level=logical --throwaway -- $(PYTEST)

# The tests of the event log once more, while the WAL is followed.
test-wal: $(TESTED)
	$(PYTEST) --feed wal $(or $(TESTS),tests/events)

# The data pipeline: what needs a session of Spark, and what takes long. MARKED="spark and not nightly" is a part of it.
test-spark: MARKED ?= spark
test-spark: $(INSTALLED_ALL)
	$(PYTEST) -n 2 -m "$(MARKED)" $(or $(TESTS),tests/spark)

# Pages in headless Chromium, which has to be there: apt-get install chromium. PGQUEUE_SCREENSHOTS=1 makes those of the docs.
# MARKED="browser and not nightly" is a part of it.
test-browser: MARKED ?= browser
test-browser: $(TESTED)
	$(PYTEST) -n 2 -m "$(MARKED)" tests/sse tests/admin

# Whether the pages that a site has with Celery are those that tests expect of it with ours.
test-celery: $(TESTED) $(PEERS_INSTALLED)
	CELERY_PYTHON=$(abspath $(PEERS_VENV))/bin/python $(PYTEST) -n 2 -m celery tests/compat

# The examples of docs/examples, in Airflow, Dagster and dbt.
ORCHESTRATORS_VENV = .venv-orchestrators
ORCHESTRATING = $(ORCHESTRATORS_VENV)/installed

test-orchestrators: $(TESTED) $(ORCHESTRATING)
	ORCHESTRATORS_PYTHON=$(abspath $(ORCHESTRATORS_VENV))/bin/python $(RUN) -m pytest -n 0 -m orchestrators $(OPTIONS) tests/orchestrators

# Random histories held against four models, and everybody at once, for half of the minutes each. Before them all states of the
# small models are visited, for some more minutes. SEED=… gives its rounds the same seeds again; each round prints its own, which
# MODEL_SEED=… repeats alone.
MINUTES ?= 10
model: $(INSTALLED)
	$(if $(SEED),MODEL_FIRST_SEED=$(SEED)) MODEL_MINUTES=$(MINUTES) $(RUN) -m pytest tests/model -m "" -x -s --timeout=0

# Bytes and texts that others send, other ones in each round, until the minutes are over or something fails. SEED=… repeats
# the round that failed.
fuzz: FUZZED = tests/test_fuzz_received.py tests/inbox/test_signatures.py tests/sse/test_wire.py tests/test_ticks.py tests/codec/test_arguments.py
fuzz: $(INSTALLED)
	@seed=$(or $(SEED),$$(date +%s)); end=$$(( $$(date +%s) + 60 * $(MINUTES) )); while [ $$(date +%s) -lt $$end ]; do \
	$(RUN) -m pytest -q -n 0 --timeout=0 --hypothesis-profile=many --hypothesis-seed=$$seed $(FUZZED) \
	|| { echo "make fuzz SEED=$$seed repeats this round." >&2; exit 1; }; seed=$$((seed + 1)); done

# Every fault, under load; a table of how long each recovery took. SEED=… repeats its choices.
chaos: $(INSTALLED_ALL)
	$(if $(SEED),CHAOS_SEED=$(SEED)) $(RUN) -m pytest tests/chaos -m ""

# Everything at once for an hour, with faults; fails where it becomes slower. Alone on the machine.
soak: MINUTES = 60
soak: INTO = tests/benchmarks
soak: $(INSTALLED_ALL)
	$(if $(SEED),CHAOS_SEED=$(SEED)) $(RUN) -m tests.chaos.soak --minutes $(MINUTES) --into $(INTO)

# Everybody writes down what they see, while faults happen; a checker decides whether each promise held, and build/proof has
# the report. SEED=… repeats the choices of a run.
prove: MINUTES = 60
prove: $(INSTALLED_ALL)
	$(if $(SEED),CHAOS_SEED=$(SEED)) $(RUN) -m tests.proof --minutes $(MINUTES)

# The same with one planted fault after another, each until it is found, for MINUTES at most. MUTATIONS="…" is a part of them.
prove-mutations: MINUTES = 10
prove-mutations: $(INSTALLED_ALL)
	$(if $(SEED),CHAOS_SEED=$(SEED)) $(RUN) -m tests.proof.mutations --minutes $(MINUTES) $(MUTATIONS)

# The same checker on two other queues whose workers are killed: it finds messages that one loses, and runs that one doubles.
prove-peers: $(PEERS_INSTALLED)
	for each in huey pgqueuer; do $(PEERS_VENV)/bin/python -m pgqueue.embedded --throwaway -- \
		$(PEERS_VENV)/bin/python -m tests.proof.peers $$each || exit 1; done

# Two versions at once: of each tag of VERSIONS and of this checkout, with a migration under load. Before the first release
# the commit before the newest migration takes the place of the tags.
mixed-fleet: MINUTES = 2
mixed-fleet: VERSIONS = $(or $(shell git tag --list 'v*'),$(shell git log -1 --diff-filter=A --format=%h~1 -- 'pgqueue/migrations/0*.py'))
mixed-fleet: $(INSTALLED_ALL)
	$(if $(SEED),CHAOS_SEED=$(SEED)) $(RUN) -m tests.proof.versions --minutes $(MINUTES) $(VERSIONS)

# Interleaved statements of sessions, from SEED on, until one schedule breaks a promise. SCHEDULE="…" repeats it.
interleave: MINUTES = 60
interleave: $(INSTALLED)
	INTERLEAVE_MINUTES=$(MINUTES) INTERLEAVE_SEED=$(or $(SEED),1000) \
		$(RUN) -m pytest -n 0 -m slow -k many -x -s --timeout=0 tests/interleaving

bench: $(INSTALLED_ALL)
	$(RUN) -m tests.benchmarks

# Whether the benchmarks, the soak and the chaos tests' ledger work; what they measure means nothing here.
# MARKED="smoke and not nightly" is a part of it.
bench-smoke: MARKED ?= smoke
bench-smoke: $(INSTALLED_ALL)
	$(PYTEST) -n 2 -m "$(MARKED)"

# Millions of messages that workers ran, under load and faults, for the benchmark `spark` and for trying
# reports. It is made once, and takes minutes for each million.
history: MESSAGES = 1000000
history: $(INSTALLED_ALL)
	$(RUN) -m tests.benchmarks.harness.history --messages $(MESSAGES)

# Other queues beside ours, in a virtual environment of their own. ROUNDS=1 MESSAGES=1000 is only to see
# that it works, and PEERS="huey celery" a part of it.
bench-peers: $(PEERS_INSTALLED)
	@command -v redis-server >/dev/null || test "$$(id -u)" != 0 \
		|| { apt-get update -qq && apt-get install -qq --no-install-recommends redis-server; } \
		|| echo "There is no redis-server: Celery and Dramatiq are left out." >&2
	$(PEERS_VENV)/bin/python -m tests.benchmarks.peers $(PEERS) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MESSAGES),--messages $(MESSAGES))

# The scenarios of another benchmark, each queue on a server of its own. Alone on the machine.
bench-neutral: $(PEERS_INSTALLED)
	$(PEERS_VENV)/bin/python -m tests.benchmarks.neutral --write

# A site of the Markdown files in build/docs; a broken link or reference is an error. Then follows the
# tutorial, and reads what is YAML; all other code in the pages is run by the suite.
docs: $(INSTALLED_ALL)
	$(RUN) docs/_extensions/settings_table.py
	$(RUN) docs/_extensions/options_tables.py
	$(VENV)/bin/sphinx-build -W --keep-going -n -q -c docs . build/docs
	$(RUN) -m pytest -n 2 -m docs

# The catalogues of the admin's texts, with a template. LOCALE=nl adds one. Needs gettext.
MANAGE_TEXTS = cd pgqueue && $(abspath $(RUN)) -m django
messages: $(INSTALLED)
	$(MANAGE_TEXTS) makemessages $(if $(LOCALE),--locale $(LOCALE),--all) --keep-pot --no-obsolete --no-location --no-wrap
	sed -i '/^"POT-Creation-Date/d' pgqueue/locale/django.pot pgqueue/locale/*/LC_MESSAGES/django.po
	$(MANAGE_TEXTS) compilemessages

# Known vulnerabilities of all that requirements/ pins. It needs the network: where the advisories can't be
# asked it says so, and fails with 3. (Ruff's rules of bandit are a part of `lint`.)
AUDIT_VENV = .venv-audit
AUDITING = $(AUDIT_VENV)/installed

audit: $(AUDITING)
	$(AUDIT_VENV)/bin/python -m tests.audit $(AUDIT_VENV)/bin/pip-audit

# Build the package into dist/, and list the releases that an installation of it consists of (a CycloneDX SBOM) in build/.
# docs/internals/releasing.md says what follows.
RELEASE_VENV = .venv-release
RELEASING = $(RELEASE_VENV)/installed
SBOM = build/pgqueue.cdx.json

dist: $(RELEASING)
	rm -rf dist build/lib build/sbom
	$(RELEASE_VENV)/bin/python -m build --no-isolation
	$(RELEASE_VENV)/bin/twine check --strict dist/*
	$(PYTHON) -m venv --without-pip build/sbom
	$(RELEASE_VENV)/bin/python -m pip --python build/sbom/bin/python install --quiet --disable-pip-version-check dist/*.whl
	$(RELEASE_VENV)/bin/cyclonedx-py environment --mc-type library --output-file $(SBOM) build/sbom/bin/python

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(INSTALLED_ALL)
	$(VENV)/bin/mypy

imports: $(INSTALLED)
	$(VENV)/bin/lint-imports --no-cache

migrations: $(INSTALLED)
	$(RUN) manage.py makemigrations --check --dry-run

check: lint types imports migrations

$(INSTALLED): setup.cfg pyproject.toml $(REQUIREMENTS)
	@test -n "$(PYTHON)" || { echo "Python 3.$(OLDEST) or newer is needed." >&2; exit 1; }
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	$(call PIP,$(VENV)) --require-hashes -r $(REQUIREMENTS)
	$(call PIP,$(VENV)) --no-deps --no-build-isolation -e .
	touch $@

$(PEERS_INSTALLED): setup.cfg requirements/peers.in requirements/peers.txt
	@test -n "$(PEERS_PYTHON)" || { echo "Python 3.11 or newer is needed." >&2; exit 1; }
	test -e $@ || $(PEERS_PYTHON) -m venv --clear $(PEERS_VENV)
	$(call PIP,$(PEERS_VENV)) --require-hashes -r requirements/peers.txt
	$(call PIP,$(PEERS_VENV)) --no-deps --no-build-isolation -e .
	touch $@

$(ORCHESTRATING): requirements/orchestrators.txt
	@test -n "$(PYTHON)" || { echo "Python 3.$(OLDEST) or newer is needed." >&2; exit 1; }
	test -e $@ || $(PYTHON) -m venv --clear $(ORCHESTRATORS_VENV)
	# As constraints the pins hold for a package with extras, too: pip would take its newest release, which has no hash.
	$(ORCHESTRATORS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $< -c $<
	touch $@

$(AUDITING): requirements/audit.txt
	@test -n "$(PYTHON)" || { echo "Python 3.$(OLDEST) or newer is needed." >&2; exit 1; }
	test -e $@ || $(PYTHON) -m venv --clear $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

$(RELEASING): requirements/release.txt
	@test -n "$(PYTHON)" || { echo "Python 3.$(OLDEST) or newer is needed." >&2; exit 1; }
	test -e $@ || $(PYTHON) -m venv --clear $(RELEASE_VENV)
	$(RELEASE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

$(INSTALLED_ALL): $(INSTALLED) $(ALL_REQUIREMENTS)
	$(call PIP,$(VENV)) --require-hashes -r $(ALL_REQUIREMENTS)
	touch $@

# Needs uv (pip install uv). Two files a Django, good for every Python it supports: all extras, and those of them that
# `make test` needs, at the same releases.
COMPILE = uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header
constraints:
	for each in 52:3.11 60:3.12 61:3.12; do \
		pinned=requirements/django$${each%:*} python=$${each#*:}; \
		$(COMPILE) --python-version $$python --all-extras setup.cfg -c $$pinned.in -o $$pinned-all.txt \
		&& $(COMPILE) --python-version $$python --extra embedded --extra dev setup.cfg -c $$pinned-all.txt -o $$pinned.txt \
		|| exit; \
	done
	$(COMPILE) --python-version 3.11 --extra embedded setup.cfg requirements/peers.in -o requirements/peers.txt
	for each in audit orchestrators release uv; do \
		$(COMPILE) --python-version 3.11 requirements/$$each.in -o requirements/$$each.txt || exit; \
	done

clean:
	rm -rf .venv .venv-* build dist *.egg-info
