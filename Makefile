# The usual ways to build and try Zellige; the build itself is CMakeLists.txt. `make` alone prints this list.
#
#   make build BUILD=build-clang CC=clang OPTIONS="-DZL_WERROR=OFF"

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
OPTIONS ?=
NINJA   := $(shell command -v ninja 2>/dev/null)
CMAKE    = cmake --build $(BUILD) --parallel $(shell nproc)
export DESTDIR

help: ## Print this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '  make %-14s %s\n' "$$target" "$$text"; done

demo: ## Install what is missing, build, show the devices, run a small program and its distance from the machine's limit
	@tool/setup.sh python
	@$(MAKE) --no-print-directory build
	@tool/demo.sh $(BUILD)

test: ## Install what is missing, build, run all tests
	@tool/setup.sh test
	@tool/test.sh test

test-matrix: ## The tests in builds by clang with sanitizers, and for the other architecture in an emulator, and of ops on Vulkan (CI runs test and this)
	@tool/setup.sh matrix
	@tool/test.sh matrix

test-quick: build ## A seeded sample of the tests, for daily work: under a minute on two cores
	@tool/test.sh quick

test-long: ## All tests and builds at their largest sizes, with a new seed: hours
	@tool/setup.sh matrix
	@tool/test.sh long

test-cloud: build ## The scripts for TPUs on a private Slurm of two nodes, by SkyPilot itself: root, minutes
	@tool/setup.sh cloud
	@test/cloud/rehearse.sh $(BUILD)

test-tpu: build ## The tests of ops and the suite tpu_simple on the TPUs of scripts/launch_tpu.sh, whose run is pulled; WORDS are those of tests
	@ZELLIGE=$(BUILD)/zellige scripts/test_tpu.sh $(WORDS)

test-bm1690-vendor: build ## The emulator of the BM1690 against the vendor's model, from the wheel tpu_mlir (300 MB), with a new seed
	@python=$$(tool/python.sh $(BUILD) numpy) && tool/bm1690/vendor.sh $(BUILD) "$$python"

build: generate ## Library, program, tests, benchmarks and examples; installs nothing
	@$(CMAKE)

$(BUILD)/CMakeCache.txt:
	@cmake -S . -B $(BUILD) $(if $(NINJA),-G Ninja) $(if $(filter-out default,$(origin CC)),-DCMAKE_C_COMPILER=$(CC)) $(OPTIONS)

generate: $(BUILD)/CMakeCache.txt ## Write the generated files that are committed: zellige_ops.h, doc/api, doc/environment.md
	@tool/generate.sh $(BUILD)

check: build ## Layers, exported names, generated files, names of mlx.core, documents, shell scripts; installs nothing
	@tool/check.sh $(BUILD)

docs: build ## The documents as a site that opens from disk, build/site/index.html; its generator comes from PyPI
	@python=$$(tool/python.sh $(BUILD) mkdocs-material==9.8.1) && "$$python" tool/docs.py $(BUILD)

bench: build ## Run every benchmark: ratios against this machine's limits
	@tool/bench.sh $(BUILD)

bench-check: build ## Fail if a ratio fell below bench/baseline.json
	@tool/bench.sh $(BUILD) --check bench/baseline.json

bench-against: build ## Build the version REV (HEAD) too and let both measure in turns; CHECK has more for `zellige bench check`
	@tool/bench_against.sh $(BUILD) $(or $(REV),HEAD) $(CHECK)

bench-python: build ## What calls from Python cost, beside MLX and NumPy
	@python=$$(tool/python.sh $(BUILD) numpy 'mlx[cpu]==0.32.4') && PYTHONPATH=$(BUILD)/python "$$python" bench/python_calls.py --check

bench-ops: build ## Every op beside MLX, NumPy and PyTorch, the slowest first: minutes
	@python=$$(tool/python.sh $(BUILD) numpy torch 'mlx[cpu]==0.32.4') && PYTHONPATH=$(BUILD)/python "$$python" bench/ops.py $(BUILD)

bench-fusion: build ## Fused expressions and a training step, beside PyTorch, JAX and MLX
	@python=$$(tool/python.sh $(BUILD) numpy torch 'jax[cpu]' 'mlx[cpu]==0.32.4') && \
		PYTHONPATH=$(BUILD)/python "$$python" bench/fusion.py --check

bench-programs: build ## Whole programs (training, prefill, decoding) with memory beside MLX and PyTorch; PROGRAMS has options
	@python=$$(tool/python.sh $(BUILD) numpy torch 'mlx[cpu]==0.32.4' mlx-lm) && \
		PYTHONPATH=$(BUILD)/python "$$python" bench/programs.py $(PROGRAMS)

bench-cpu: build ## The bars of the CPU in one table, beside PyTorch, JAX, NumPy, BLIS, MLX, and llama.cpp if GGML is its folder
	@python=$$(tool/python.sh $(BUILD) numpy torch 'jax[cpu]' 'mlx[cpu]==0.32.4') && \
		PYTHONPATH=$(BUILD)/python "$$python" bench/cpu.py --build $(BUILD) $(if $(GGML),--ggml "$(GGML)") $(if $(ONLY),--only "$(ONLY)") \
		--keep $(BUILD)/bench-cpu.json $(if $(RESUME),--resume) --check

mlx-suite: build ## MLX's own Python tests from MLX_TESTS, a copy of its python/tests; writes doc/compatibility.md
	@test -d "$(MLX_TESTS)" || { echo "make mlx-suite MLX_TESTS=<folder python/tests of MLX's repository>"; exit 2; }
	@python=$$(tool/python.sh $(BUILD) numpy pytest ml_dtypes torch 'mlx[cpu]==0.32.4') && \
		"$$python" tool/mlx_suite.py "$(MLX_TESTS)" $(BUILD)

tilelang-suite: build ## TileLang's own examples from TILELANG_EXAMPLES, a copy of its examples, for TARGET (c); writes doc/tilelang-compatibility.md
	@test -d "$(TILELANG_EXAMPLES)" || { echo "make tilelang-suite TILELANG_EXAMPLES=<folder examples of TileLang's repository> [TARGET=c]"; exit 2; }
	@python=$$(tool/python.sh $(BUILD) numpy torch packaging einops tqdm) && \
		{ test -d $(BUILD)/references || "$$python" -m pip install -q --disable-pip-version-check --no-deps \
		--target $(BUILD)/references triton==3.8.0 flash-linear-attention==0.2.2; } && \
		PYTHONPATH=$(BUILD)/references TARGET=$(TARGET) "$$python" tool/tilelang_suite.py "$(TILELANG_EXAMPLES)" $(BUILD)

install: build ## Install under PREFIX (default /usr/local); DESTDIR for packagers
	@cmake --install $(BUILD) --prefix $(PREFIX)

uninstall: ## Remove what the last install wrote
	@cmake -DMANIFEST=$(BUILD)/install_manifest.txt -P cmake/uninstall.cmake

format: ## Format the C files with clang-format, and fill comments and documents to 110 columns
	@find include src model cli test bench example tool -name '*.c' | xargs clang-format -i
	@tool/wrap_comments.py
	@tool/wrap_documents.py

clean: ## Remove everything that was built
	@for folder in build build-*; do test ! -f "$$folder/CMakeCache.txt" || rm -rf "$$folder"; done

.PHONY: help demo test test-matrix test-quick test-long test-cloud test-tpu test-bm1690-vendor build generate check docs bench bench-check bench-against bench-python bench-ops bench-fusion bench-programs bench-cpu mlx-suite tilelang-suite install uninstall format clean
