#!/usr/bin/env bash
# vendor.sh BUILD PYTHON - the emulator of the BM1690 against the vendor's reference model, bit by bit: single commands (cases.py) and
# whole kernels (compare.py), with new shapes and values in each run. SEED repeats a run. The interpreter needs numpy.
set -euo pipefail
build=$1 python=$2
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
fresh=$build/bm1690/fresh

echo "seed $seed: SEED=$seed make test-bm1690-vendor repeats this"
"$python" tool/bm1690/golden.py "$build" "$fresh" --seed "$seed"
ZL_TEST_BM1690=$fresh "$build/test" bm1690/test_bm1690_commands
"$python" tool/bm1690/compare.py "$build" --seed "$seed"
