#!/usr/bin/env bash
# python.sh BUILD [PACKAGE...] - prints the path of an interpreter that has these packages from PyPI: in an environment of
# its own, BUILD/venv, made and filled when need be. Fails, saying why, where that cannot be done (no network, no pip).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
venv=$build/venv
python=$venv/bin/python

# The interpreter that the extension was built for.
base=$(sed -n 's/^_Python3_EXECUTABLE:INTERNAL=//p' "$build/CMakeCache.txt" | head -n 1)
[ -n "$base" ] || base=$(command -v python3)
[ -x "$python" ] || "$base" -m venv "$venv" >&2
missing=()
for package in "$@"; do
    "$python" -m pip show -q "${package%%[=<>[]*}" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} = 0 ] || timeout 600 "$python" -m pip install -q --disable-pip-version-check "${missing[@]}" >&2
echo "$python"
