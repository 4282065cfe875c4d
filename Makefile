# The front door. CMake does the work (CMakePresets.json); `make help` lists what there is.
MODEL ?= models/colibri-tales-14m-q8_0.gguf
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
SOAK_MINUTES ?= 10

.PHONY: all help demo test check-all bench fuzz soak soak-server check-deploy clients format format-check lint layers install clean
.DEFAULT_GOAL := all

all: ## build build/bin/colibri, build/lib/libcolibri.so and libcolibri.a
	@scripts/setup.sh demo
	@scripts/build.sh release colibri_cli colibri_archive

help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

demo: ## install what is missing, build, and tell a short story
	@$(MAKE) --no-print-directory all >&2
	@scripts/demo.sh $(MODEL)

test: ## install what is missing, build, and run every test (what .ci/run runs)
	@scripts/setup.sh test
	@scripts/test.sh

check-all: ## the slow rest: clang build, clang-tidy, all tests under all sanitizers, longer fuzzing
	@scripts/setup.sh check
	@scripts/lint.sh
	@scripts/fuzz.sh 300
	@scripts/test.sh all

bench: ## against other engines, which it installs (an hour; BENCH_ARGS="--quick --peers llama.cpp" for less)
	@scripts/setup.sh bench
	@scripts/bench.sh $(BENCH_ARGS)

fuzz: ## every parser's fuzzer for FUZZ_SECONDS each
	@scripts/setup.sh check
	@scripts/fuzz.sh $(FUZZ_SECONDS)

soak: all ## for SOAK_MINUTES, half each: runs with changing settings; engines with changing budgets under a crowd
	@scripts/soak.sh $(MODEL) $(SOAK_MINUTES)

clients: all ## the server under the openai, anthropic, LangChain and lm-eval packages, curl and a fuzzer (installs them below build/)
	@scripts/clients.sh

soak-server: all ## for SOAK_MINUTES: 64 reading and 300 idle clients on one server, some slow, some leaving
	@python3 bench/soak_server.py $(MODEL) $(SOAK_MINUTES)

check-deploy: ## deploy/ with the programs that read it: Kubernetes' schemas, promtool, Ray (1 GB in build-deploy/)
	@scripts/setup.sh bench
	@scripts/check_deploy.sh

format: ## clang-format every source file in place
	@scripts/setup.sh test
	@scripts/format.sh

format-check: ## say which files clang-format would change
	@scripts/setup.sh test
	@scripts/format.sh --check

lint: ## clang-tidy over src/ and apps/
	@scripts/setup.sh check
	@scripts/lint.sh

layers: ## who includes whom (also a step of every build)
	@tools/check_layers.py

install: all ## install below PREFIX
	cmake --install build --prefix $(PREFIX)

clean: ## remove every build folder
	rm -rf build build-*
