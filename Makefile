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
