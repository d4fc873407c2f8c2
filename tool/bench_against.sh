#!/usr/bin/env bash
# bench_against.sh BUILD REVISION [ARGUMENT...] - builds a revision beside this one and lets both measure in turns:
# `zellige bench check --against` with the arguments. Its build stays in BUILD/against, so the next one is quicker.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 revision=$2
shift 2
other=$build/against
commit=$(git rev-parse --verify "$revision^{commit}")
if [ -d "$other/tree" ]; then
    git -C "$other/tree" checkout -q --detach "$commit"
else
    git worktree prune
    git worktree add -q --detach "$other/tree" "$commit"
fi
generator=()
! command -v ninja >/dev/null || generator=(-G Ninja)
# With the options of this build: only the source differs.
mapfile -t options < <(sed -nE 's/^((ZL_[A-Z_]+|CMAKE_BUILD_TYPE|CMAKE_C_COMPILER|CMAKE_C_COMPILER_LAUNCHER|CMAKE_C_FLAGS):[A-Z]+=.*)/-D\1/p' "$build/CMakeCache.txt")
cmake -S "$other/tree" -B "$other/build" "${generator[@]}" "${options[@]}" -DZL_DEV=OFF >/dev/null
cmake --build "$other/build" --parallel "$(nproc)" --target zellige >/dev/null
echo "against $(git log -1 --format='%h %s' "$commit")"
exec "$build/zellige" bench check "$@" --against "$other/build/zellige"
