# SPDX-License-Identifier: GPL-2.0-only
# Every command of the project; `make help` lists them.

BPF_SOURCES := $(wildcard bpf/*.h bpf/*.c tests/policy/*.c tests/lab/*/*.c)
TARGET := x86_64-unknown-linux-gnu
HOST_TESTS := $(filter-out vm,$(basename $(notdir $(wildcard tests/*.rs)) \
	$(patsubst tests/%/main.rs,%,$(filter-out tests/lab/%,$(wildcard tests/*/main.rs)))))

.PHONY: help setup build fmt lint test test-host test-vm demo lab peers static clean-cache

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

setup: ## Install what building and testing need (Debian 12 or later); quick when it is all there
	@scripts/setup.sh

build: ## Build the scheduler: target/release/scx_eevdfx
	cargo build --release --locked

fmt: ## Format the Rust and C sources in place
	cargo fmt
	clang-format-19 -i $(BPF_SOURCES)

lint: ## Check formats and lints, change nothing
	cargo fmt --check
	cargo clippy --all-targets --release --locked -- -D warnings
	clang-format-19 --dry-run -Werror $(BPF_SOURCES)

test-host: ## Tests that need no virtual machine
	cargo test --release --locked --lib --bins --example lab $(HOST_TESTS:%=--test %)

test-vm: ## Tests that boot real kernels; they are fetched once into the cache
	cargo build --release --locked --bins --example lab
	cargo test --release --locked --test vm -- --test-threads=64

test: setup lint test-host test-vm ## All of the checks, as CI runs them

SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
DEMO_ARGS := --slice-us 6440 --no-place-lag
VM_NOTE := Times are virtual: the guest's 8 CPUs share 10^9 instructions a second, one instruction is 1 ns. Caches and memory are not modelled.

demo: setup build ## The scheduler beside the kernel's in a virtual machine; HOST=1 for this machine (needs sched_ext and root)
	cargo build --release --locked --example lab --example vm
ifdef HOST
	$(SUDO) target/release/examples/lab demo --scheduler target/release/scx_eevdfx --args '$(DEMO_ARGS)' --settle-seconds 2
else
	target/release/examples/vm run --kernel 7.3 --icount --timeout 1800 -- \
		"lab demo --scheduler /bin/scx_eevdfx --args '$(DEMO_ARGS)' --settle-seconds 0 \
		--hackbench-runs 2 --request-s 1.3 --pipe-rounds 6000 --note \"$(VM_NOTE)\""
endif

lab: setup build ## All cells of the comparison, default knobs, in a virtual machine; some 10 minutes
	cargo build --release --locked --example lab --example vm
	target/release/examples/vm run --kernel 7.3 --icount --timeout 3000 -- \
		"lab demo --scheduler /bin/scx_eevdfx --settle-seconds 0 --request-s 4 \
		--cells hackbench,half,full,over,pipe,pipe2,hogs,share --note \"$(VM_NOTE)\""

PEERS ?= scx_bpfland scx_cosmos scx_flash scx_rusty
CELLS ?= hackbench,half,full,over,pipe,pipe2,pipes,pipes-across,pipes-free,hogs9,hogs12,hogs17,nices,pinned,naps,share,$(\
	)burst8,burst16,burst32,burst64,spill
PG_CELLS := $(findstring pg-,$(CELLS))
LENGTHS ?= --request-s 4 --hogs-s 8
KERNEL ?= 7.3
ARGS ?=
ARMS ?=

peers: setup build ## Ours, the kernel's and other sched_ext schedulers in one table, in a virtual machine; see README
	cargo build --release --locked --example lab --example vm
	peers=$$(scripts/peers.sh $(PEERS)) && \
	$(if $(PG_CELLS),postgres=$$(tests/lab/postgres/fetch.sh) &&) \
	target/release/examples/vm run --kernel $(KERNEL) --icount --memory 4096 --timeout 7200 \
		$$(echo "$$peers" | sed -n 's/^./--with &/p') \
		$(if $(PG_CELLS),--with tests/lab/postgres/serve.sh --file $$postgres=/postgres.tar) -- \
		"$(if $(PG_CELLS),serve.sh && )lab demo --scheduler /bin/scx_eevdfx --args '$(ARGS)' $(foreach peer,$(PEERS),--arm $(peer)=/bin/$(peer)) $(ARMS) \
		--settle-seconds 0 $(LENGTHS) --cells $(CELLS) --json /tmp/json --note \"$(VM_NOTE)\"; \
		code=\$$?; cat /tmp/json; exit \$$code"

static: ## Build a binary that needs no libraries, for any distribution or a bare initramfs
	LIBBPF_SYS_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu RUSTFLAGS="-C target-feature=+crt-static" \
		cargo build --release --locked --features static --target $(TARGET)
	@echo target/$(TARGET)/release/scx_eevdfx

clean-cache: ## Remove the downloaded kernels, packages and their lists, and the built peers
	rm -rf "$${SCX_EEVDFX_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/scx_eevdfx}"
