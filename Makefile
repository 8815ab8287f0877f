# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
SECONDS ?= 15
MINUTES ?= 1
CLANG ?= clang
FUZZ ?= $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

VENV := .venv
BIN := $(VENV)/bin
BUILD := build
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --root-user-action ignore
CMAKE := $(BIN)/cmake -S native -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	-DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
QUIETLY = >$(BUILD)/$(@F).log 2>&1 || { cat $(BUILD)/$(@F).log; exit 1; }

C_FILES := $(shell find native tests bench -name '*.[ch]')
NATIVE := $(shell find native proto -name '*.[ch]' -o -name CMakeLists.txt -o -name '*.py')
PYTHON_FILES := collector deploy tests bench proto

.PHONY: build wheel bench-tools demo test test-native test-python test-asan interop lint format peers bench \
	bench-guard fuzz clean

demo: build
	@$(BIN)/python -m deploy.demo --seconds $(SECONDS)

test: test-native test-asan test-python

# ------------------------------------------------------------------------------------------------------------- build

build: $(VENV)/.built

$(BUILD)/.libraries: deploy/libraries.sh
	@deploy/libraries.sh $(PYTHON)
	@mkdir -p $(BUILD) && touch $@

$(VENV)/.packages: pyproject.toml $(BUILD)/.libraries
	@echo "installing Python packages into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python deploy/requirements.py >$(BUILD)/requirements.txt
	@$(PIP) -r $(BUILD)/requirements.txt
	@touch $@

site = "$$($(1)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# An editable installation finds modules by Python code, 4 ms and half a megabyte of each start. Here they are found as
# those of any other are: the extension lies beside its wrappers, and the finder is not loaded.
$(VENV)/.built: $(VENV)/.packages pyproject.toml $(NATIVE)
	@echo "building the native library ..."
	@$(PIP) --no-build-isolation --no-deps -e .
	@ln -sf $(call site,$(BIN))/collector/native/_spansieve*.so collector/native/
	@sed -i '/^import/d' $(call site,$(BIN))/_editable_skbc_spansieve.pth
	@$(BIN)/python -m compileall -q collector
	@touch $@

# A wheel for other machines, in dist/: with the C libraries in it, but for OpenSSL and those of every Linux. How old a
# Linux may be is in its name: that of this machine's C library, or older.
WHEEL := $(BUILD)/wheel

$(WHEEL)/venv/.packages: pyproject.toml
	@test -x $(WHEEL)/venv/bin/python || $(PYTHON) -m venv $(WHEEL)/venv
	@$(BIN)/python deploy/requirements.py wheel >$(WHEEL)/requirements.txt
	@$(WHEEL)/venv/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
		-r $(WHEEL)/requirements.txt
	@touch $@

wheel: build $(WHEEL)/venv/.packages
	@echo "building a wheel ..."
	@rm -rf $(WHEEL)/linux dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps . \
		--wheel-dir $(WHEEL)/linux --config-settings build-dir=$(WHEEL)/build \
		--config-settings cmake.define.SPANSIEVE_BUNDLE=ON
	@PATH=$(CURDIR)/$(WHEEL)/venv/bin:$$PATH auditwheel repair --wheel-dir dist $(WHEEL)/linux/*.whl $(QUIETLY)
	@$(BIN)/python -m pytest -q tests/test_deploy.py -k TestWheel $(QUIETLY)
	@ls -sh dist/*.whl

# ------------------------------------------------------------------------------------------------------------- tests

# The C tests, and the fuzz targets on their corpora: as shipped, with ASan and UBSan, and the concurrent ones with TSan.
FLAGS-release := -DCMAKE_BUILD_TYPE=Release
FLAGS-asan := -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG='-O1 -g' -DSPANSIEVE_SANITIZE=address,undefined
FLAGS-tsan := -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG='-O1 -g' -DSPANSIEVE_SANITIZE=thread
ONLY-tsan = -R "^($$(grep -l pthread.h tests/native/test_*.c | xargs -n 1 basename -s .c | paste -s -d '|'))$$"

export ASAN_OPTIONS := detect_leaks=1
export UBSAN_OPTIONS := halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS := halt_on_error=1

test-native: test-native-release test-native-asan test-native-tsan

test-native-%: build
	@echo "testing the native library ($*) ..."
	@$(CMAKE) -B $(BUILD)/$* -DSPANSIEVE_TESTS=ON -DSPANSIEVE_BENCH=ON $(FLAGS-$*) $(QUIETLY)
	@$(BIN)/cmake --build $(BUILD)/$* $(QUIETLY)
	@$(BIN)/ctest --test-dir $(BUILD)/$* --output-on-failure --parallel 2 $(ONLY-$*) $(QUIETLY)
	@grep 'tests passed' $(BUILD)/$(@F).log

test-python: bench-tools
	@$(BIN)/python -m pytest

# The tests over real sockets once more, with the extension built with ASan and UBSan. The second environment is
# an overlay on the first one: only the extension differs. Leaks are for the C tests to find: CPython frees late.
ASAN := $(BUILD)/asan-python

$(ASAN)/.built: $(VENV)/.built
	@echo "building the native library with ASan and UBSan ..."
	@test -x $(ASAN)/bin/python || $(BIN)/python -m venv --without-pip $(ASAN)
	@echo $(call site,$(BIN)) >$(call site,$(ASAN)/bin)/base.pth
	@$(BIN)/python -m pip --python $(ASAN)/bin/python install --quiet --disable-pip-version-check \
		--root-user-action ignore --no-build-isolation --no-deps -e . \
		--config-settings build-dir=$(BUILD)/asan-extension --config-settings cmake.build-type=RelWithDebInfo \
		--config-settings cmake.define.SPANSIEVE_SANITIZE=address,undefined
	@touch $@

test-asan: $(ASAN)/.built test-native-asan
	@echo "testing over sockets with ASan and UBSan ..."
	@LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
		$(ASAN)/bin/python -m pytest -q -p no:cacheprovider tests/integration tests/conformance -k "not grpcio"
	@SPANSIEVE_BENCH_TOOLS=$(BUILD)/asan $(BIN)/python -m pytest -q tests/unit/bench/test_load.py \
		tests/unit/bench/test_load_http2.py

# The real Collector, built with its own builder, side by side with spansieve: `make interop COLLECTOR=v0.165.0` for
# another release than the newest.
interop: build
	@binary=$$(tests/interop/build_collector.sh $(CURDIR)/$(BUILD)/collector $(COLLECTOR)) && \
		SPANSIEVE_INTEROP_COLLECTOR=$$binary $(BIN)/python -m pytest -q tests/interop

# -------------------------------------------------------------------------------------------------------------- lint

lint: build
	@echo "linting ..."
	@$(BIN)/ruff check --quiet $(PYTHON_FILES)
	@$(BIN)/ruff format --quiet --check $(PYTHON_FILES)
	@$(BIN)/mypy $(QUIETLY)
	@$(BIN)/lint-imports $(QUIETLY)
	@$(BIN)/interrogate --quiet collector deploy bench proto
	@$(BIN)/interrogate --quiet --whitelist-regex '^test_' tests
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@$(CMAKE) -B $(BUILD)/lint -DSPANSIEVE_WERROR=ON -DSPANSIEVE_BENCH=ON $(QUIETLY)
	@$(BIN)/cmake --build $(BUILD)/lint $(QUIETLY)

format: build
	@$(BIN)/ruff check --quiet --fix-only $(PYTHON_FILES)
	@$(BIN)/ruff format --quiet $(PYTHON_FILES)
	@$(BIN)/clang-format -i $(C_FILES)

# -------------------------------------------------------------------------------------------------------------- more

# spansieve-load and spansieve-sink, in build/bench.
bench-tools: build
	@$(CMAKE) -B $(BUILD)/bench -DSPANSIEVE_BENCH=ON $(FLAGS-release) $(QUIETLY)
	@$(BIN)/cmake --build $(BUILD)/bench --target bench_tools $(QUIETLY)

# The other collectors, from their official packages, kept in build/peers: `make peers COLLECTOR=v0.161.0` for another
# release. One that cannot be had is said to be missing.
peers: $(VENV)/.packages
	@COLLECTOR=$(COLLECTOR) bench/peers/build.sh $(CURDIR)/$(BUILD)/peers $(BIN)/python

# BENCH holds options: `make bench BENCH="--quick --system otelcol"`.
bench: bench-tools peers
	@$(BIN)/spansieve bench $(BENCH)

# What repeats exactly, held against the committed baseline.
bench-guard: build
	@$(BIN)/spansieve bench kernel compression --compare bench/baseline.json --out $(BUILD)/bench/guard

# Fuzz each target for some minutes: `make fuzz MINUTES=10 FUZZ=fuzz_http2`. What it learns stays in build/fuzz/corpus.
fuzz: build
	@command -v $(CLANG) >/dev/null || { echo "make fuzz needs clang; CLANG=... names another" >&2; exit 1; }
	@$(CMAKE) -B $(BUILD)/fuzz -DCMAKE_C_COMPILER=$(CLANG) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-DSPANSIEVE_FUZZ=ON -DSPANSIEVE_SANITIZE=address,undefined $(QUIETLY)
	@$(BIN)/cmake --build $(BUILD)/fuzz $(QUIETLY)
	@for target in $(FUZZ); do \
		echo "fuzzing $$target for $(MINUTES) min ..."; \
		mkdir -p $(BUILD)/fuzz/corpus/$$target; \
		$(BUILD)/fuzz/$$target -max_total_time=$$(($(MINUTES) * 60)) -timeout=10 -verbosity=0 -print_final_stats=1 \
			$(BUILD)/fuzz/corpus/$$target tests/fuzz/corpus/$$target || exit 1; \
	done

clean:
	rm -rf $(BUILD) $(VENV) dist
