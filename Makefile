# The two commands of the README are `make study` and `make test`; `make help` lists the others.
# Every target that needs the set-up does it itself, in milliseconds once it is done.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
VOCAB_SIZE ?= 4096
SUBSET ?= quick
SMELT := build/release/bin/smelt
PYTHON_HERE := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup build test study mini corpus bench bench-train soak format format-check lint asan install clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  TORCH=…              another torch wheel (a file, or a requirement such as torch==2.14.0)"
	@echo "  CMAKE_PREFIX_PATH=…  a LibTorch of your own"
	@echo "  JOBS=$(JOBS)  PREFIX=$(PREFIX)  VOCAB_SIZE=$(VOCAB_SIZE)  SUBSET=$(SUBSET) (or full)"

setup:  ## packages and .venv only
	@scripts/setup.sh

build: setup  ## the programs, build/release/bin/smelt
	@scripts/build.sh release $(JOBS)

test: setup  ## builds and runs every test (unit and slow), ends with the counts
	@scripts/build.sh release $(JOBS)
	@scripts/test.sh release 'unit|slow' $(JOBS)

study: corpus  ## the quick study: corpus, training, laws, report (10 to 15 minutes on 2 cores)
	@$(SMELT) study configs/quick.toml --out runs/quick

mini: corpus  ## the same line in miniature (2 minutes)
	@$(SMELT) study configs/mini.toml --out runs/mini

corpus: build  ## the built-in corpus and its token store (87 MB to download, once)
	@$(PYTHON_HERE) scripts/corpus/corpus.py --out corpus/$(SUBSET)/text --subset $(SUBSET)
	@$(SMELT) data build corpus/$(SUBSET)/text --out corpus/$(SUBSET)/store --vocab-size $(VOCAB_SIZE) >/dev/null

bench: setup  ## the benchmarks (an idle machine, please)
	@scripts/build.sh release $(JOBS) -DSMELT_BENCH=ON
	@scripts/bench.sh release

bench-train: setup  ## a training step beside transformers' (it is downloaded, once; about 15 minutes)
	@scripts/build.sh release $(JOBS) -DSMELT_BENCH=ON
	@scripts/bench_train.sh release

soak: corpus  ## long campaigns: a study and a run killed again and again
	@scripts/build.sh release $(JOBS)
	@scripts/test.sh release soak 1

format: setup  ## clang-format on every C++ file
	@scripts/format.sh -i

format-check: setup  ## fails when clang-format would change a file
	@scripts/format.sh --dry-run -Werror

lint: setup  ## clang-tidy (.clang-tidy says which checks)
	@scripts/lint.sh $(JOBS)

asan: setup  ## the torch-free tests under the address and undefined-behaviour sanitizers
	@scripts/build.sh asan $(JOBS)
	@scripts/test.sh asan unit $(JOBS)

install: build  ## programs, libraries, headers and CMake package into PREFIX
	@cmake --install build/release --prefix $(PREFIX) | tail -1

clean:  ## removes build/ (not .venv, corpus/ and runs/)
	@rm -rf build
