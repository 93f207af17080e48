# The only door: developers, CI and packagers all call make.

CARGO ?= cargo
export CARGO_TARGET_DIR ?= $(CURDIR)/target

.PHONY: help run test check lint unit ci dist deb rpm static package-test bench torture experiment nginx-suite fuzz-smoke clean

help:
	@echo "make run          three backends and headwater on 127.0.0.1:8080, logs on the terminal"
	@echo "make test         all tests, against nginx where it can be had"
	@echo "make check        formatting, lints, documentation, unit tests: before a commit"
	@echo "make ci           everything that CI runs; skipped tests are failures there"
	@echo "make dist         the binary of packages; prints where it is (HEADWATER_PGO=0: without a profile)"
	@echo "make deb rpm      packages of that binary (HEADWATER_BIN=file: of another); print where they are"
	@echo "make static       the binary with a C library of its own"
	@echo "make package-test installs, upgrades and removes the package in a Debian with systemd (as root)"
	@echo "make bench        speed beside nginx, haproxy and envoy (BENCH_QUICK=1: a short one)"
	@echo "make torture      reloads, upgrades and killed workers under load, beside nginx (three minutes at most)"
	@echo "make experiment   how balancing methods share requests, here and in nginx"
	@echo "make nginx-suite  nginx's own test suite (NGINX_TESTS=directory, NGINX_SUITE_FILES=...)"
	@echo "make fuzz-smoke   each fuzz target for half a minute (FUZZ_SECONDS=30)"

run:
	@scripts/run

test:
	@scripts/test

unit:
	@$(CARGO) test --quiet --lib

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --quiet --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps
	packaging/copyright >/dev/null

check: lint unit

# HEADWATER_ORACLE_REQUIRED: a test that cannot ask nginx fails instead of being skipped.
ci: lint
	@HEADWATER_ORACLE_REQUIRED=1 scripts/test

dist:
	@scripts/dist

deb rpm:
	@scripts/package $@

static:
	@scripts/static

package-test:
	@packaging/test

bench:
	@benches/e2e
	@benches/streams
	@benches/tls

torture:
	@benches/torture

experiment:
	@scripts/experiment

nginx-suite:
	@scripts/nginx-suite $(NGINX_SUITE_FILES)

fuzz-smoke:
	@scripts/fuzz-smoke

clean:
	$(CARGO) clean
