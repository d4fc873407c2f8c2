#!/usr/bin/env bash
# device_ops.sh DEVICE [BUILD] [SECONDS] - the ops' tests with a device as default, each file in a process, side by side.
# Prints what failed, and each file's count and time; fails if something did.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

device=$1
build=${2:-build-device}
limit=${3:-240}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export ZL_DEVICE=$device ZL_CACHE_DIR=${ZL_CACHE_DIR:-$PWD/$build/cache}

# one FILE: its tests; the exit status in a file, since xargs tells only that one of them failed.
one() {
    local log
    log=$logs/$(basename "$1") began=$SECONDS
    timeout "$limit" "$build/test" --quick -v "$1:" >"$log" 2>&1
    echo "$? $((SECONDS - began))" >"$log.status"
}
export -f one
export build limit logs

"$build/test" --list op/ | cut -d: -f1 | sort -u | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'one "$1"' _ {}

failed=0
for log in "$logs"/*.status; do
    read -r status seconds <"$log"
    echo "$(basename "$log" .status): status $status, ${seconds} s, $(tail -1 "${log%.status}")"
    [ "$status" = 0 ] || failed=1
done
for log in "$logs"/*.status; do
    read -r status _ <"$log"
    [ "$status" = 0 ] && continue
    echo "== $(basename "$log" .status)"
    grep -v '^passed' "${log%.status}" | cut -c1-240 | head -20
done
exit $failed
