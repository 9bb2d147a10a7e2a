# Two commands are all that is needed: `make demo` and `make test`.
# The plain lines they stand for are in README.md.

# Each Django has a virtual environment and a constraints file of its own:
# `make test DJANGO=61` is the same suite on Django 6.1 (Python >= 3.12), and with
# TESTS=tests/backend a part of it.
DJANGO ?= 52
ifeq ($(DJANGO),52)
VENV ?= .venv
OLDEST = 11
else
VENV ?= .venv-$(DJANGO)
OLDEST = 12
endif
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, $(OLDEST)))' 2>/dev/null \
	&& echo $$python && break; done)
CONSTRAINTS = requirements/django$(DJANGO).txt
RUN = $(VENV)/bin/python
# Written last, so that an installation which was killed is begun afresh.
INSTALLED = $(VENV)/installed

.PHONY: demo test test-postgres model bench lint types imports migrations check constraints clean

demo: $(INSTALLED)
	$(RUN) manage.py demo

test: $(INSTALLED)
	$(RUN) -m pytest $(TESTS)

# The suite on a throwaway server of another version: VERSION=15 or 16.
test-postgres: $(INSTALLED)
	$(RUN) -m pgqueue.embedded --version $(VERSION) --throwaway -- $(RUN) -m pytest

# Random histories held against a model, and then everybody at once: half of the minutes each.
MINUTES ?= 10
model: $(INSTALLED)
	MODEL_MINUTES=$(MINUTES) $(RUN) -m pytest tests/model -x -s --timeout=0

bench: $(INSTALLED)
	$(RUN) -m tests.benchmarks

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(INSTALLED)
	$(VENV)/bin/mypy

imports: $(INSTALLED)
	$(VENV)/bin/lint-imports --no-cache

migrations: $(INSTALLED)
	$(RUN) manage.py makemigrations --check --dry-run

check: lint types imports migrations

$(INSTALLED): setup.cfg pyproject.toml $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "Python 3.$(OLDEST) or newer is needed." >&2; exit 1; }
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[embedded,dev]'
	touch $@

# Needs uv (pip install uv). One file a Django, good for every Python it supports.
constraints:
	for each in 52:3.11 60:3.12 61:3.12; do \
		uv pip compile --quiet --universal --python-version $${each#*:} --extra embedded --extra dev \
			--no-emit-index-url --no-emit-find-links --no-header setup.cfg \
			--constraint requirements/django$${each%:*}.in -o requirements/django$${each%:*}.txt \
		|| exit; \
	done

clean:
	rm -rf .venv .venv-* build dist *.egg-info
