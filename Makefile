# Every target makes .venv and installs what it needs when it is missing.
#
#   make demo     run the demo job: late, out-of-order events, one failure, one recovery
#   make demo-kafka  run a job from Kafka to Kafka beside a broker that it starts (needs Maven, once)
#   make unit     the unit tests, in less than a minute
#   make test     all tests: of units, of contracts and whole jobs, with Spark and processes
#   make chaos    kill jobs at random, KILLS=100 times, and check every record (SEED=1 repeats;
#                 MASTER='local[2]' or 'local-cluster[2,1,1024]': on Spark, and its processes too;
#                 MASTER=hosts: on hosts made of network namespaces, with cuts; needs root)
#   make chaos-kafka   the same for a job between two topics, and for their broker
#   make soak     run a job for SECONDS=7200 with kills, and check every line, memory and files
#   make check    format, lint, types, layers, tidiness: what a change must pass
#   make bench    measure beside PyFlink, Flink SQL and PySpark (QUICK=1: small inputs)
#   make docs     build the documentation into docs/_build/html
#   make format   let ruff format and repair
#   make lowest   the unit tests with the oldest versions of all packages that pyproject.toml allows
#   make lock     renew requirements-dev.lock
#   make clean    remove what was built; .venv stays (make distclean removes it too)

.DEFAULT_GOAL := help
.PHONY: help demo demo-kafka unit test chaos chaos-kafka soak check bench docs format lock lowest clean distclean

BIN := .venv/bin
READY := .venv/.ready
CODE := src tests bench examples docs tools
ifneq ($(PYTHON),)
export PYTHON
endif
# Otherwise each of the processes that collect the tests would compile all of them.
export PYTHONDONTWRITEBYTECODE =

help:
	@sed -n 's/^#   //p' Makefile

$(READY): pyproject.toml requirements-dev.lock tools/bootstrap.sh
	@tools/bootstrap.sh
	@touch $@

demo: $(READY)
	$(BIN)/penstock demo

demo-kafka: $(READY)
	$(BIN)/python tools/demo_kafka.py

unit: $(READY)
	$(BIN)/pytest -n 3 --dist worksteal -m "not spark and not e2e" tests/unit

# Three runs; in the last one, tests of a file share the JVM or the server that it starts, and those on
# hosts wait much: so there is one process more than cores. The limits are for a machine under load.
test: unit
	$(BIN)/pytest -n 2 -m "not spark and not e2e" --ignore=tests/unit --session-timeout=1800
	$(BIN)/pytest -n 3 --dist loadgroup -m "spark or e2e" --session-timeout=3000

chaos: $(READY)
	nice $(BIN)/python tests/chaos/campaign.py --kills $(or $(KILLS),100) $(if $(SEED),--seed $(SEED)) \
	    $(if $(MASTER),--master '$(MASTER)')

chaos-kafka: $(READY)
	nice $(BIN)/python tests/chaos/kafka_campaign.py --kills $(or $(KILLS),100) \
	    $(if $(SEED),--seed $(SEED)) $(if $(MASTER),--master '$(MASTER)') \
	    $(if $(SECONDS),--seconds $(SECONDS))

soak: $(READY)
	nice $(BIN)/python tests/chaos/soak.py $(or $(DIRECTORY),$(shell mktemp -du)) \
	    --seconds $(or $(SECONDS),7200) $(if $(SEED),--seed $(SEED))

check: $(READY)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_tidy.py tests/test_structure.py tests/test_imports.py \
	    tests/test_configuration_page.py tests/test_fault_table.py tests/test_public_api.py
	@found=$$($(BIN)/pytest --collect-only -qq tests) || { echo "$$found" | tail -60; exit 1; }

bench: $(READY)
	$(BIN)/python -m bench $(if $(QUICK),--quick)

docs: $(READY)
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

format: $(READY)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

# Without index and file addresses: the lock must work behind any mirror.
lock: $(READY)
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-emit-index-url \
	    --no-annotate --no-header --group dev --all-extras pyproject.toml -o requirements-dev.lock

# They are those of what users install; `TESTS=tests/spark` for others than the unit tests. What old
# packages warn of is none of our errors.
lowest: $(READY)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .bench/lowest
	$(BIN)/uv pip install --quiet --python .bench/lowest --resolution lowest-direct '.[all]' --group dev
	.bench/lowest/bin/python -m pytest -n 2 -o filterwarnings=default \
	    $(if $(TESTS),,-m "not spark and not e2e") $(or $(TESTS),tests/unit)

clean:
	rm -rf build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache \
	    .hypothesis .bench/data .bench/run spark-warehouse metastore_db derby.log
	find src tests bench examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .bench
