# The door. `make help` lists the targets; each creates what it needs.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
DEMO_UPDATES ?=
DEMO_SEED ?= 0
DEMO_KEEP ?= 0
BENCH ?=
ARGS ?=
TYPES ?= tentalis.d.ts
JOBS ?= 3
# folders of the tests that are fast for what they show; their times stand in the report of `make test ARGS=--durations=0`
QUICK := tests/core tests/architecture tests/client tests/outbound tests/apps/gateway/dialects $(addprefix tests/apps/, \
	accounts api audit base calibration checks feedback inference operations outbox rollouts \
	scoring supervision tasks workers worlds)

# what `check --deploy` looks at: production settings, with addresses nobody answers on
PRODUCTION := DJANGO_SETTINGS_MODULE=tentalis.settings.prod TENTALIS_HTTPS=1 \
	TENTALIS_SECRET_KEY=only-lint-reads-this-0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGH \
	TENTALIS_DATABASE_URL=postgres://lint@127.0.0.1:1/lint TENTALIS_REDIS_URL=redis://127.0.0.1:1/0

.PHONY: help demo up test quick lint bench schema screens types lock install

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: ## watch a worker learn its manager's rules (DEMO_UPDATES= DEMO_SEED=0 DEMO_KEEP=0; on another model MODEL= ACCEPT_LICENCE=1)
	@started=$$(date +%s); $(MAKE) -s $(VENV)/installed-base; installed=$$(date +%s); \
	TENTALIS_HOME="$${TENTALIS_HOME:-$(CURDIR)/.tentalis}" $(VENV)/bin/tentalis demo $(if $(DEMO_UPDATES),--updates $(DEMO_UPDATES)) \
		--seed $(DEMO_SEED) $(if $(filter-out 0,$(DEMO_KEEP)),--keep) \
		$(if $(MODEL),--model $(MODEL)) $(if $(ACCEPT_LICENCE),--accept-licence) --install-s $$((installed - started))

up: $(VENV)/installed-base ## start everything on this machine and stay
	@$(VENV)/bin/tentalis up

test: $(VENV)/installed-dev ## run every test (ARGS="-k name", JOBS=3 at a time)
	@docker/requirements/system.sh
	@$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

quick: $(VENV)/installed-dev ## what two minutes show, without browser, processes, faults and torch (ARGS=tests/apps/console for more)
	@$(PY) -m pytest -q -n $(JOBS) --dist loadfile -m "not (browser or broker or slow or torch or thorough)" $(QUICK) $(ARGS)

lint: $(VENV)/installed-dev ## format, style, types, floors, templates, Django's own checks
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/djlint templates --lint --quiet
	$(PRODUCTION) $(PY) manage.py check --deploy --fail-level WARNING
	$(PRODUCTION) DJANGO_SETTINGS_MODULE=tentalis.settings.test \
		$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

bench: $(VENV)/installed-dev ## measure side by side (BENCH=trainer|engine|pipeline|learning|faults|...)
	@test -n "$(BENCH)" || { echo "make bench needs BENCH=name, one of: $$(for file in tests/bench/*.py; do \
		name=$$(basename "$$file" .py); \
		! sed 6q "$$file" | grep -qE "(tests\.bench\.|BENCH=)$$name([^a-z_]|$$)" || printf '%s ' "$$name"; done)" >&2; exit 2; }
	@$(PY) -m tests.bench.$(BENCH) $(ARGS)

schema: $(VENV)/installed-base ## write apps/base/schema.sql again, after a new migration
	@$(PY) manage.py write_schema

screens: $(VENV)/installed-dev ## photograph every page, light and dark, into docs/screens (ARGS="--only review task")
	@docker/requirements/system.sh
	@$(PY) -m tests.e2e.screens $(ARGS)

types: $(VENV)/installed-base ## write TypeScript types of the REST API (TYPES=tentalis.d.ts); needs Node
	@schema=$$(mktemp) && trap 'rm -f "$$schema"' EXIT && \
	$(PRODUCTION) $(PY) manage.py spectacular --format openapi-json --file "$$schema" && \
	npx --yes openapi-typescript@7.13.0 "$$schema" -o $(TYPES)

lock: $(VENV)/installed-dev ## write docker/requirements/*.lock again (ARGS=--upgrade)
	@docker/requirements/lock.sh $(ARGS)

install: $(VENV)/installed-dev ## make .venv with everything the tests need

$(VENV)/installed-%: docker/requirements/%.lock docker/requirements/benchmarks.lock docker/requirements/tools.lock docker/requirements/torch.lock docker/requirements/torch-cpu.lock docker/requirements/install.sh pyproject.toml
	@docker/requirements/install.sh $(VENV) $*
	@touch $@
