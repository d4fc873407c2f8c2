#!/usr/bin/env bash
# python.sh BUILD [PACKAGE...] - prints the path of an interpreter that has these packages from PyPI: in an environment of
# its own, BUILD/venv, made and filled when need be. Fails, saying why, where that cannot be done (no network, no pip).
# python.sh BUILD --of-core - prints the path of the one that zellige.core was built for. Fails if it was not built.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
venv=$build/venv
python=$venv/bin/python

base=$(sed -n 's/^_Python3_EXECUTABLE:INTERNAL=\(\/.*\)/\1/p' "$build/CMakeCache.txt") # none: not a path
if [ "${1:-}" = --of-core ]; then
    if ! ls "$build"/python/zellige/core.*.so >/dev/null 2>&1; then
        echo "this build has no zellige.core, because no Python with headers was found" >&2
        exit 1
    fi
    echo "$base"
    exit
fi
[ -n "$base" ] || base=$(command -v python3)
exec 9>"$venv.lock" # others that want packages at the same time wait
flock 9
"$python" -c 'import pip' 2>/dev/null || "$base" -m venv --clear "$venv" >&2
missing=()
for package in "$@"; do
    "$python" -m pip show -q "${package%%[=<>[]*}" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} = 0 ] || timeout 600 "$python" -m pip install -q --disable-pip-version-check "${missing[@]}" >&2
echo "$python"
