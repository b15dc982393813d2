# One command each. `make` alone lists them.

CARGO ?= qualification/cargo.sh
PREFIX ?= /usr
DESTDIR ?=
TARGET = $(or $(CARGO_TARGET_DIR),target)
QUALIFICATION = $(TARGET)/debug/lucia-qualification

.PHONY: help setup demo test lint bench fuzz invert install

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing by Debian packages and make the file system of a test node; safe to repeat
	@qualification/setup.sh

demo: ## one real node from discovery to Managed, and the page; ONCE=1 drives the page in a headless browser and ends
	@qualification/setup.sh demo $(if $(filter-out 0,$(ONCE)),once)
	$(CARGO) build --workspace --bins
	@$(QUALIFICATION) demo $(if $(filter-out 0,$(ONCE)),--once)

test: setup ## every test, container nodes included; ends with `N passed, N failed`
	@qualification/run-tests.sh

lint: ## formatting, clippy, shellcheck and the tests of the tree itself
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	shellcheck qualification/*.sh .ci/run
	$(CARGO) test --quiet -p lucia-tests --test tidy

bench: ## the figures, each with its goal
	$(CARGO) build --quiet --release --workspace --bins
	$(CARGO) bench --quiet -p lucia-worker --bench worker
	$(CARGO) bench --quiet -p lucia-tests --bench figures -- $(if $(filter-out 0,$(QUICK)),--quick)

fuzz: ## libFuzzer over one target, from its seeds: TARGET=csr SECONDS=900
	@tests/fuzz/run.sh "$(TARGET)" "$(or $(SECONDS),60)"

invert: ## undo each check of tests/inversions in a copy and see its test fail; hours; ONLY="CH-2 lucia-agent" for some, ONLY=sample=150:7 for 150 drawn by seed 7
	$(CARGO) build --quiet -p lucia-tests --bin invert
	@$(TARGET)/debug/invert $(TARGET)/invert $(ONLY)

install: ## lay binaries, units and default configurations: make install DESTDIR=/tmp/x PREFIX=/usr
	$(CARGO) build --release -p lucia-agent -p lucia-controller -p lucia-worker -p luciactl
	@qualification/install.sh "$(TARGET)/release" "$(DESTDIR)" "$(PREFIX)"
