#!/usr/bin/env bash
# device_check.sh DEVICE [BUILD] - builds, tests one device against the CPU and measures it: for a machine that has it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

device=$1
build=${2:-build-device}
export ZL_CACHE_DIR=${ZL_CACHE_DIR:-$PWD/$build/cache}
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# step SECONDS COMMAND...: runs it and shows the end of what it says.
step() {
    local limit=$1
    shift
    echo "== $* ($(date +%T))"
    timeout "$limit" "$@" >"$log" 2>&1 || failed=1
    grep -vE '^\[ *[0-9]+' "$log" | tail -70
}

step 60 cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release
step 240 cmake --build "$build" --parallel "$(nproc)" --target zellige zellige_test bench_devices bench_device_kernels
step 30 "$build/zellige" devices
step 90 "$build/test" device/test_cuda device/test_opencl device/test_kernels device/test_replicas
step 120 env ZL_DEVICE="$device" "$build/test" op/
step 60 "$build/bench/devices" "$device"
step 60 "$build/bench/device_kernels" "$device"
exit $failed
