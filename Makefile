# Three targets matter to a newcomer: `make demo` runs the main job, `make see` shows a rebalance, `make test` passes
# the tests.
PYTHON ?= python3
# More than the two cores that a small machine has: what runs on brokers mostly waits.
JOBS ?= 4
TOX_ARGS ?=
SEE_ARGS ?=
BROKER_ARGS ?=
SEEDS ?= 1
MINUTES ?= 10
CHAOS_ARGS ?=
# Gains, trade-offs, and a group that gains by the cooperative consumer alone.
SAMPLE_GROUPS := pricing fraud backfill billing mailer telemetry payouts reports
STRATEGIES ?= range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky
export PATH := $(PATH)$(shell .ci/pythons)
export UV_PYTHON_DOWNLOADS ?= never
# PySpark comes as source, 430 MB of it. Where uv may not keep what it has built (indexes that say nothing of caching),
# each of four environments would fetch and build it anew. So each version is built once, and found here.
export UV_FIND_LINKS := $(CURDIR)/.wheels
PYSPARKS := 4.0 4.3

export AIOKAFKA := $(if $(AIOKAFKA),$(abspath $(AIOKAFKA)))

SOURCES := pyproject.toml $(shell find src plugins spark_validation/kafka_assignors_replay -type f ! -name '*.pyc')

.PHONY: help demo sample-report report-picture see see-picture watch-picture broker docs test test-all chaos upstream-aiokafka lint record dist needs-aiokafka needs-python needs-java needs-maven pysparks clean

help:
	@echo "make demo         replay the recorded history of real consumer groups in local Spark"
	@echo "make sample-report  docs/sample-report.html, from eight groups of that history"
	@echo "make report-picture  docs/report.png, the top of that report, drawn by Chromium (CHROMIUM=path)"
	@echo "make see          watch an eager and a cooperative group rebalance side by side, for a minute, in the terminal"
	@echo "make see-picture  the same for half a minute, and docs/rebalance.svg from what was measured"
	@echo "make watch-picture  docs/watch.svg, the terminal view of the watch, from that history"
	@echo "make broker       a broker on localhost:9092 with a topic and a producer, until Ctrl-C (Docker: compose.yaml)"
	@echo "make docs         the documentation site, in build/site; warnings are errors"
	@echo "make test         lint and every test, in the environments of tox.ini ($(JOBS) at once: JOBS=n)"
	@echo "make test-all     the same with every supported version of the clients on every supported Python (hours; AIOKAFKA=folder)"
	@echo "make chaos        random events on a mixed group and three brokers (SEEDS=1-20 MINUTES=10, for each seed)"
	@echo "make upstream-aiokafka  aiokafka's own tests with both consumers (AIOKAFKA=folder, a checkout)"
	@echo "make lint         ruff, mypy, pyright, import-linter, and the check of words (tools/plain_words.py)"
	@echo "make record       record a new history on a local three-broker cluster (about a quarter of an hour)"
	@echo "make dist         the archive and the wheel of a release in dist, built twice, checked, installed with each extra"
	@echo "make clean        remove the environments and what was built in them"

demo: needs-java .venv-demo/ok
	@mkdir -p demo
	@.venv-demo/bin/kafka-assignors replay spark_validation/recorded --engine spark --strategy $(STRATEGIES) \
		--report demo/report.html --json demo/report.json

sample-report: .venv-demo/ok
	@.venv-demo/bin/kafka-assignors replay spark_validation/recorded --engine local --strategy $(STRATEGIES) \
		$(SAMPLE_GROUPS:%=--group %) --report docs/sample-report.html

# The top of that report, as the README shows it.
report-picture:
	@"$${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,740 \
		--virtual-time-budget=8000 --screenshot=docs/report.png "file://$(CURDIR)/docs/sample-report.html"

watch-picture: .venv-demo/ok
	@.venv-demo/bin/python -m tools.watch_picture

broker: needs-java needs-maven .venv-see/ok
	@.venv-see/bin/python -m tools.broker $(BROKER_ARGS)

docs: .tools/ok
	.tools/bin/tox run -e docs $(TOX_ARGS)

see-picture: SEE_ARGS += --seconds 30 --every 8 --picture docs/rebalance.svg
see-picture: see

see: needs-java needs-maven .venv-see/ok
	@.venv-see/bin/python -m benchmarks.see $(SEE_ARGS)

# Which releases were tested, and with how many tests, comes last; the exit code is that of tox.
define run_tox
	rm -rf .tox/matrix; \
	SKIP_MISSING_INTERPRETERS=$(if $(CI),false,true) .tools/bin/tox run-parallel -p $(JOBS) --parallel-no-spinner \
		$(1) $(TOX_ARGS); code=$$?; cat .tox/matrix/* 2>/dev/null; exit $$code
endef

# The newest clients run on one Python: 3.14 where it is, else 3.13. `make test-all` runs them on both.
test: needs-java needs-maven pysparks
	$(if $(TOX_SKIP_ENV),,command -v python3.14 >/dev/null && export TOX_SKIP_ENV='py313-(aiokafka014|kafkapython30)$$'; )\
	$(call run_tox)

test-all: needs-java needs-maven needs-aiokafka pysparks
	$(call run_tox,-m all)

chaos: needs-java needs-maven .tools/ok
	.tools/bin/tox run -e chaos $(TOX_ARGS) -- --seeds $(SEEDS) --minutes $(MINUTES) $(CHAOS_ARGS)

upstream-aiokafka: needs-java needs-maven needs-aiokafka .tools/ok
	.tools/bin/tox run -e py313-upstream-aiokafka $(TOX_ARGS)

lint: .wheels/pyspark-4.3.ok
	.tools/bin/tox run -e lint $(TOX_ARGS)

record: needs-java needs-maven .wheels/pyspark-4.3.ok
	.tools/bin/tox run -e record $(TOX_ARGS)

dist: .wheels/pyspark-4.3.ok
	@.tools/bin/python -m tools.dist

needs-aiokafka:
	@test -d "$(AIOKAFKA)" || { echo "AIOKAFKA=folder is needed: a checkout of aiokafka, of the newest supported release" >&2; exit 1; }

needs-python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "Python 3.10 or newer is needed, and $(PYTHON) is %d.%d: make PYTHON=python3.12, say" % sys.version_info[:2])'

needs-java:
	@command -v java >/dev/null 2>&1 || { echo "Java 17 or newer is needed on PATH (Debian: apt install default-jdk-headless)" >&2; exit 1; }

needs-maven:
	@command -v mvn >/dev/null 2>&1 || { echo "Maven is needed on PATH to fetch Kafka's jars (Debian: apt install maven)" >&2; exit 1; }

.tools/ok: Makefile | needs-python
	@$(PYTHON) -m venv --clear .tools || { echo "python3 -m venv failed (Debian: apt install python3-venv)" >&2; exit 1; }
	@.tools/bin/python -m pip install -q --disable-pip-version-check "pip>=24" "tox>=4.30,<5" tox-uv
	@mkdir -p .wheels
	@touch $@

pysparks: .tools/ok
	@$(MAKE) --no-print-directory -j $(JOBS) $(PYSPARKS:%=.wheels/pyspark-%.ok)

# By the newest Python that there is, for the newest PySpark takes no old one. If it fails, environments build their own.
.wheels/pyspark-%.ok: | .tools/ok
	@mkdir -p .wheels
	@newest=$$(for each in python3.13 python3.12 python3.11 $(PYTHON); do command -v $$each && break; done); \
	echo "building the wheel of PySpark $*, once for all environments (a download of 430 MB)"; \
	if TMPDIR=$(CURDIR)/.wheels .tools/bin/python -m pip --python "$$newest" wheel -q --disable-pip-version-check \
		--no-deps -w .wheels "pyspark~=$*.0"; then touch $@; else echo "PySpark $* could not be built" >&2; fi

.venv-demo/ok: $(SOURCES) | needs-python
	@$(PYTHON) -m venv --clear .venv-demo || { echo "python3 -m venv failed (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "installing kafka-assignors and PySpark into .venv-demo (PySpark alone is a download of 430 MB)"
	@.venv-demo/bin/python -m pip install --disable-pip-version-check $(if $(wildcard .wheels),--find-links .wheels) '.[spark,cli]'
	@touch $@

.venv-see/ok: $(SOURCES) | needs-python
	@$(PYTHON) -m venv --clear .venv-see || { echo "python3 -m venv failed (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "installing kafka-assignors and the clients into .venv-see"
	@.venv-see/bin/python -m pip install -q --disable-pip-version-check '.[aiokafka,kafka-python,admin,cli]'
	@touch $@

clean:
	rm -rf .tools .wheels .python314 .venv-demo .venv-see .venv .tox dist demo
