# lib.sh - what the test scripts share. Read by them: . "$(dirname "$0")/lib.sh"
# shellcheck shell=bash
#
# A script is called from anywhere with the build folder as its argument, has an empty folder $tmp, and ends
# with `finish`, which prints the sum that tool/test.sh reads.

set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit
# shellcheck disable=SC2034
build=$(cd "${1:-build}" && pwd) || exit
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

export ZL_DEVICE=${ZL_DEVICE:-cpu} # also on a machine with a GPU

passed=0 failed=0 skipped=0

check() { # NAME COMMAND...: passes if the command does; its output is shown if not
    local name=$1 text
    shift
    if text=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "passed $name"
    else
        failed=$((failed + 1))
        echo "FAILED $name: $*"
        [ -z "$text" ] || printf '%s\n' "$text" | tail -n 40 | sed 's/^/    /'
    fi
}

exits() { # CODE COMMAND...: whether the command ends with that code; prints what it said
    local want=$1 got
    shift
    "$@"
    got=$?
    [ "$got" = "$want" ] || { echo "exit code $got, not $want: $*"; return 1; }
}

says() { # PATTERN COMMAND...: whether the command's output, errors included, has the extended pattern
    local pattern=$1 text
    shift
    text=$("$@" 2>&1)
    grep -qE -- "$pattern" <<<"$text" && return
    printf 'no "%s" in:\n%s\n' "$pattern" "$text"
    return 1
}

interrupted() { # UNTIL CODE PATTERN PROGRAM...: whether the program, ended by SIGTERM once UNTIL succeeds, ends soon, with that code, and says so
    local until=$1 code=$2 pattern=$3 since got
    shift 3
    "$@" >"$tmp/said" 2>&1 &
    victim=$!
    for _ in $(seq 600); do
        "$until" && break
        sleep 0.05
    done
    kill -TERM $victim
    since=$SECONDS
    wait $victim
    got=$?
    [ $((SECONDS - since)) -le 20 ] && [ "$got" = "$code" ] && grep -qE -- "$pattern" "$tmp/said" && return
    printf 'ended after %d s with %d, not %d, or no "%s" in:\n%s\n' $((SECONDS - since)) "$got" "$code" "$pattern" "$(cat "$tmp/said")"
    return 1
}

has_child() { [ -n "$(cat "/proc/$victim/task/$victim/children" 2>/dev/null)" ]; } # for `interrupted`

add() { # COMMAND...: runs it, and adds the sum that it ends with
    local line count
    "$@" | tee "$tmp/log"
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$tmp/log" | tail -n 1)
    read -r -a count <<<"${line:-0 passed, 1 failed, 0 skipped}"
    passed=$((passed + count[0])) failed=$((failed + count[2])) skipped=$((skipped + count[4]))
}

skip() { # NAME REASON
    skipped=$((skipped + 1))
    echo "skipped $1: $2"
}

open_vulkan() { # that it works here, and caches of its own; finishes where it does not
    local probe why
    unset ZL_DEVICE
    export ZL_CACHE_DIR=$tmp/kernels MESA_SHADER_CACHE_DIR=$tmp/mesa # what a driver did once, it does again
    probe=$("$build/test" device/test_vulkan:vulkan_runs_a_module 2>&1)
    if ! grep -q '^1 passed' <<<"$probe" && why=$(grep -E 'skipped device|Illegal instruction' <<<"$probe"); then
        skip "Vulkan" "$why"
        finish
    fi
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}
