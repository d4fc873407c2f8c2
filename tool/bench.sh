#!/usr/bin/env bash
# bench.sh BUILD [ARGUMENT...] - runs every benchmark program with the arguments; fails if one of them does.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=$1
shift
failed=()
for program in "$build"/bench/*; do
    if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
    printf '== %s\n' "$(basename "$program")"
    "$program" "$@" || failed+=("$(basename "$program")")
done
[ ${#failed[@]} = 0 ] && exit 0
echo "failed: ${failed[*]}"
exit 1
