# One command each. `make` alone lists them.

CARGO ?= qualification/cargo.sh
PREFIX ?= /usr
DESTDIR ?=
TARGET = $(or $(CARGO_TARGET_DIR),target)
QUALIFICATION = $(TARGET)/debug/lucia-qualification

.PHONY: help setup demo test lint build bench fuzz invert mutants lines install

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

bench: build ## the figures, each with its goal
	$(CARGO) bench --quiet -p lucia-worker --bench worker
	$(CARGO) bench --quiet -p lucia-tests --bench figures -- $(if $(filter-out 0,$(QUICK)),--quick)

fuzz: ## libFuzzer over one target, from its seeds: TARGET=csr SECONDS=900
	@tests/fuzz/run.sh "$(TARGET)" "$(or $(SECONDS),60)"

invert: ## undo each check of tests/inversions.txt in a copy and see a test fail
	@qualification/mutants.sh

mutants: ## every mutant of some files: FILES="proto/src/csr.rs worker/src/decide.rs"
	@qualification/mutants.sh $(or $(FILES),$(error name the files: make mutants FILES="proto/src/csr.rs"))

lines: ## lines of code of the programs, by crate
	@qualification/lines.sh


build: ## the programs as they are installed, into target/programs
	$(CARGO) build --release -p lucia-controller -p lucia-worker -p luciactl -p lucia-qualification
	$(CARGO) build --profile agent -p lucia-agent
	@install -D -t "$(TARGET)/programs" $(addprefix $(TARGET)/release/,lucia-controller lucia-enrollment-worker luciactl lucia-qualification) "$(TARGET)/agent/lucia-node-agent"

install: build ## lay binaries, units and default configurations: make install DESTDIR=/tmp/x PREFIX=/usr
	@qualification/install.sh "$(TARGET)/programs" "$(DESTDIR)" "$(PREFIX)"
