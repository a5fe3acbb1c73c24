# make certify   hold this machine's KV block copies to account, on its best platform
# make test      the suite's own tests, and the suite itself on the CPU
#
# Both set up .venv first (tools/set_up.py), which takes no time when nothing changed.
#   PYTHON=python3.12          the interpreter; its torch is kept where it has one
#   ARGS="--budget certify"    options for pytest, see README.md

PYTHON ?= python3
RUN = .venv/bin/python -m

.PHONY: help certify test tests suite lint spec set-up set-up-dev clean

help:
	@sed -n '/^# /s/^# //p' Makefile

certify: set-up
	$(RUN) pytest -n auto $(ARGS)

test: tests suite

tests: set-up
	$(RUN) pytest -n auto -W error -q tests

suite: set-up
	$(RUN) pytest -n auto --platform cpu -q $(ARGS)

lint: set-up-dev
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

spec: set-up
	$(RUN) conformance spec > SPEC.md
	$(RUN) conformance.selection render

set-up:
	@$(PYTHON) tools/set_up.py

set-up-dev:
	@$(PYTHON) tools/set_up.py --dev

clean:
	rm -rf .venv build dist reports *.egg-info
