#!/usr/bin/env bash
# python_module.sh BUILD - zellige.core: its own tests, the ops against MLX, MLX's layers, and a wheel that pip builds.
. "$(dirname "$0")/lib.sh"

if ! why=$(tool/python.sh "$build" --of-core 2>&1); then
    echo "skipped: $why"
    skipped=1
    finish
fi
if ! python=$(tool/python.sh "$build" numpy "mlx[cpu]==0.32.4" scikit-build-core 2>"$tmp/why"); then
    echo "skipped what needs NumPy and MLX: $(tail -n 1 "$tmp/why")"
    skipped=1
    finish
fi
export PYTHONPATH=$build/python

add "$python" test/python/run.py
add "$python" test/python/run.py oracle_gradients.py # with MLX itself in the process
add "$python" test/python/oracle_ops.py "$build"

# A script for MLX runs as it is.
cat >"$tmp/script.py" <<'PY'
import mlx.core as mx
import mlx.nn as nn
print(mx.__name__, nn.Linear(3, 2)(mx.ones((4, 3))).shape)
PY
check "python -m zellige.mlx" says "zellige.core \\(4, 2\\)" "$python" -m zellige.mlx "$tmp/script.py"
check "zellige.mlx without a script" exits 2 "$python" -m zellige.mlx

# The wheel, in an environment of its own. With a compiler cache it is as users build it, of objects that the build has compiled: by the
# same compiler, in a folder beside it, so that commands are alike. Without one it has one level and little optimisation, to be quick.
unset PYTHONPATH
of_build() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; } # VARIABLE
compiler=$(of_build CMAKE_C_COMPILER)
launcher=$(of_build CMAKE_C_COMPILER_LAUNCHER)
quick=()
[ -n "$launcher" ] || quick=(--config-settings=cmake.define.ZL_LEVELS=scalar
    --config-settings=cmake.define.CMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG")
wheel_build=$build-wheel
trap 'rm -rf "$tmp" "$wheel_build"' EXIT
wheel() {
    rm -rf "$wheel_build"
    CMAKE_C_COMPILER_LAUNCHER=$launcher "$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$tmp/wheel" "${quick[@]}" \
        --config-settings=cmake.define.ZL_GEN="$build/zellige-gen" --config-settings=cmake.define.CMAKE_C_COMPILER="$compiler" \
        --config-settings=build-dir="$wheel_build" . # Debian's pip has no -C
}
installed() {
    "$python" -m venv "$tmp/venv" && "$tmp/venv/bin/python" -m pip install -q --no-deps "$tmp"/wheel/*.whl &&
        cd "$tmp" && "$tmp/venv/bin/python" -c "import zellige.core as mx; assert (mx.ones(3) + 1).tolist() == [2, 2, 2]"
}
# Programs for MLX where the package mlx is not installed: with mlx.core alone they run, else they are told what to install.
cat >"$tmp/core_only.py" <<'PY'
import mlx.core as mx
from mlx.core import linalg
print(mx.__name__, linalg.norm(mx.array([3.0, 4.0])).item())
PY
frontend() { # what the extra of pyproject.toml installs: one package, none of MLX's back ends
    local wheel
    wheel=$(echo "$tmp"/wheel/*.whl)
    "$tmp/venv/bin/python" -m pip install -q --disable-pip-version-check "${wheel}[mlx]" &&
        ! "$tmp/venv/bin/python" -m pip show -q mlx-cpu 2>/dev/null &&
        "$tmp/venv/bin/python" -m zellige.mlx "$tmp/script.py"
}
# An interpreter without the GIL, where there is one.
free_threaded() {
    cmake -S . -B "$tmp/free" -DPython3_EXECUTABLE="$1" -DZL_LEVELS=scalar -DZL_GEN="$build/zellige-gen" -DZL_DEV=OFF \
        -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" >/dev/null &&
        cmake --build "$tmp/free" --parallel "$(nproc)" --target python >/dev/null &&
        PYTHONPATH=$tmp/free/python "$1" test/python/run.py test_module.py
}
free=$(command -v python3.14t || command -v python3.13t)
if [ -n "$free" ]; then
    check "a free-threaded interpreter" free_threaded "$free"
else
    echo "skipped the free-threaded interpreter: there is neither python3.14t nor python3.13t"
    skipped=$((skipped + 1))
fi

check "pip builds a wheel" wheel
check "the wheel works where it is installed" installed
check "the wheel has the program" says "^zellige [0-9]+\\." "$tmp/venv/bin/zellige" version
check "mlx.core needs no mlx" says "zellige.core 5.0" "$tmp/venv/bin/python" -m zellige.mlx "$tmp/core_only.py"
check "mlx.nn says what to install" says "pip install 'zellige\\[mlx\\]'" "$tmp/venv/bin/python" -m zellige.mlx "$tmp/script.py"
check "the extra brings mlx.nn" says "zellige.core \\(4, 2\\)" frontend
finish
