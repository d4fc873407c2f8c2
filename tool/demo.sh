#!/usr/bin/env bash
# demo.sh BUILD - shows what a build can do: the devices, a small program, a line of Python, how near it comes to the
# machine's limit.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
bold='' plain=''
[ ! -t 1 ] || [ "${NO_COLOR:-}" ] || { bold=$'\033[1m' plain=$'\033[0m'; }

show() { # COMMAND...: announced, then run, if it is there
    [ -x "$1" ] || return 0
    printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
    "$@"
}
show "$build/zellige" devices
show "$build/example/linear_regression"
if python=$(tool/python.sh "$build" --of-core 2>/dev/null); then
    line='import zellige.core as mx; print(mx.grad(lambda x: mx.sum(x * x))(mx.arange(4.0)))'
    printf "\n%s\$ PYTHONPATH=%s %s -c '%s'%s\n" "$bold" "$build/python" "$python" "$line" "$plain"
    PYTHONPATH=$build/python "$python" -c "$line"
fi
show "$build/bench/arrays" --demo
show "$build/zellige" bench auto --short --out "$build/runs" || true
