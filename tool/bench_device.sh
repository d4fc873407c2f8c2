#!/usr/bin/env bash
# bench_device.sh DEVICE OUT [BUILD] - builds, measures one device with `zellige bench` (the full suite of its chip, the
# best shape for bf16, and on cuda products of tf32) and leaves the run folders as OUT/runs.tar.gz: for a machine that has the device.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

device=$1 out=$2 build=${3:-build-device}
export ZL_CACHE_DIR=${ZL_CACHE_DIR:-$PWD/$build/cache}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

if ! cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >"$runs/log" 2>&1 ||
    ! cmake --build "$build" --parallel "$(nproc)" --target zellige >>"$runs/log" 2>&1; then
    tail -n 40 "$runs/log"
    exit 1
fi
bench=("$build/zellige" bench)
"${bench[@]}" devices
timeout 150 "${bench[@]}" auto --full --device "$device" --out "$runs/runs" --notes "tool/bench_device.sh $device"
timeout 90 "${bench[@]}" search --device "$device" --dtype bf16 --least 1024 --most 16384 --budget 40 --out "$runs/runs"
[ "$device" != cuda ] || ZL_TF32=1 timeout 30 "${bench[@]}" run gpu_gemm --device cuda --only tf32 --out "$runs/runs"
tar -C "$runs" -czf "$out/runs.tar.gz" runs
