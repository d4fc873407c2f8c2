#!/usr/bin/env bash
# check.sh BUILD - what can be seen without running tests: layers, exported names, generated files, names of mlx.core,
# shell scripts.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

build=$1
failed=0
say() { printf '%-28s %s\n' "$1" "$2"; }

step() { # NAME COMMAND...
    local name=$1 text
    shift
    if text=$("$@" 2>&1); then
        say "$name" ok
    else
        say "$name" FAILED
        printf '%s\n' "$text"
        failed=1
    fi
}

step "layers" tool/layers.sh
step "exported names" tool/check_symbols.sh "$build/libzellige.so"
step "generated files" tool/generate.sh "$build" --check
python=$(sed -n 's/^_Python3_EXECUTABLE:INTERNAL=//p' "$build/CMakeCache.txt")
if [ -n "$python" ]; then
    step "names of mlx.core" "$python" tool/coverage.py "$build"
else
    say "names of mlx.core" "skipped: no Python"
fi
if command -v shellcheck >/dev/null; then
    step "shell scripts" shellcheck -S warning tool/*.sh test/scripts/*.sh scripts/*.sh .ci/run
else
    say "shell scripts" "skipped: no shellcheck"
fi
exit $failed
