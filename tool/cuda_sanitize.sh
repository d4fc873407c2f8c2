#!/usr/bin/env bash
# cuda_sanitize.sh [BUILD] [TOOL] [TEST...] - the ops' tests on an NVIDIA GPU under compute-sanitizer: memcheck, racecheck,
# initcheck or synccheck. Fails when it finds something.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build-device}
tool=${2:-memcheck}
shift $(($# < 2 ? $# : 2))
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(op/)

if ! command -v compute-sanitizer >/dev/null; then
    echo "cuda_sanitize.sh: compute-sanitizer, of the CUDA toolkit, is not in PATH" >&2
    exit 2
fi
export ZL_DEVICE=cuda ZL_CACHE_DIR=${ZL_CACHE_DIR:-$PWD/$build/cache}
# A library that asks whether something is possible makes calls that fail: those are not ours to report.
exec compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 --target-processes all \
    "$build/test" --quick "${tests[@]}"
