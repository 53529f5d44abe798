# Two targets matter to a newcomer: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
JOBS ?= 2
TOX_ARGS ?=
STRATEGIES ?= range,roundrobin,sticky,cooperative-sticky
export PATH := $(PATH)$(shell .ci/pythons)
export UV_PYTHON_DOWNLOADS ?= never

SOURCES := pyproject.toml $(shell find src plugins spark_validation/kafka_assignors_spark -type f ! -name '*.pyc')

.PHONY: help demo test test-all lint record needs-java needs-maven clean

help:
	@echo "make demo     replay the recorded history of real consumer groups in local Spark"
	@echo "make test     lint and every test, in the environments of tox.ini ($(JOBS) at once: JOBS=n)"
	@echo "make test-all the same with every supported version of the clients"
	@echo "make lint     ruff, mypy, pyright, import-linter"
	@echo "make record   record a new history on a local three-broker cluster (about a quarter of an hour)"
	@echo "make clean    remove the environments and what was built in them"

demo: needs-java .venv-demo/ok
	@mkdir -p demo
	@.venv-demo/bin/kafka-assignors replay spark_validation/recorded --strategy $(STRATEGIES) \
		--report demo/report.html --json demo/report.json

test: needs-java needs-maven .tools/ok
	SKIP_MISSING_INTERPRETERS=$(if $(CI),false,true) .tools/bin/tox run-parallel -p $(JOBS) --parallel-no-spinner $(TOX_ARGS)

test-all: needs-java needs-maven .tools/ok
	SKIP_MISSING_INTERPRETERS=$(if $(CI),false,true) .tools/bin/tox run-parallel -p $(JOBS) --parallel-no-spinner -m all $(TOX_ARGS)

lint: .tools/ok
	.tools/bin/tox run -e lint $(TOX_ARGS)

record: needs-java needs-maven .tools/ok
	.tools/bin/tox run -e record $(TOX_ARGS)

needs-java:
	@command -v java >/dev/null 2>&1 || { echo "Java 17 or newer is needed on PATH (Debian: apt install default-jdk-headless)" >&2; exit 1; }

needs-maven:
	@command -v mvn >/dev/null 2>&1 || { echo "Maven is needed on PATH to fetch Kafka's jars (Debian: apt install maven)" >&2; exit 1; }

.tools/ok: Makefile
	@$(PYTHON) -m venv --clear .tools || { echo "python3 -m venv failed (Debian: apt install python3-venv)" >&2; exit 1; }
	@.tools/bin/python -m pip install -q --disable-pip-version-check "tox>=4.30,<5" tox-uv
	@touch $@

.venv-demo/ok: $(SOURCES)
	@$(PYTHON) -m venv --clear .venv-demo || { echo "python3 -m venv failed (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "installing kafka-assignors and PySpark into .venv-demo (PySpark alone is a download of 430 MB)"
	@.venv-demo/bin/python -m pip install --disable-pip-version-check '.[spark,cli]'
	@touch $@

clean:
	rm -rf .tools .venv-demo .venv .tox dist demo
