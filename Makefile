# Two targets matter to a newcomer: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
JOBS ?= 2
TOX_ARGS ?=
export PATH := $(PATH)$(shell .ci/pythons)
export UV_PYTHON_DOWNLOADS ?= never

.PHONY: help demo test lint record clean

help:
	@echo "make demo     replay the recorded history of real consumer groups in local Spark"
	@echo "make test     lint and every test, in the environments of tox.ini (JOBS=$(JOBS) at once)"
	@echo "make lint     ruff, mypy, pyright, import-linter"
	@echo "make record   record a new history on a local three-broker cluster (about a quarter of an hour)"
	@echo "make clean    remove the environments and what they built"

.tools/ok: Makefile
	$(PYTHON) -m venv --clear .tools || { echo "python3 -m venv failed; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	.tools/bin/python -m pip install -q --disable-pip-version-check "tox>=4.30,<5" tox-uv
	@touch $@

test: .tools/ok
	.tools/bin/tox run-parallel -p $(JOBS) --parallel-no-spinner -m test $(TOX_ARGS)

lint: .tools/ok
	.tools/bin/tox run -e lint $(TOX_ARGS)
