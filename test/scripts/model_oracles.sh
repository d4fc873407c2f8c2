#!/usr/bin/env bash
# model_oracles.sh BUILD - quantised checkpoints against mlx-lm's own conversion, of PyPI.
. "$(dirname "$0")/lib.sh"

if ! python=$(tool/python.sh "$build" numpy "mlx[cpu]==0.32.4" mlx-lm 2>"$tmp/why"); then
    skip "quantised checkpoints" "$(tail -n 1 "$tmp/why")"
    finish
fi
check "quantised checkpoints" "$python" test/model/oracle_quantize.py "$build"
finish
