#!/usr/bin/env bash
# check_symbols.sh LIBRARY [HEADER...] - the shared library shows exactly the names that its headers, include/*.h by default, mark
# with ZL_API.
set -euo pipefail
cd "$(dirname "$0")/.."

library=$1
headers=("${@:2}")
[ $# -gt 1 ] || headers=(include/*.h)
names() { # names of all that a header sees
    ${CC:-cc} -E -P -Iinclude "$1" | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
        sed 's/__attribute__ *(([^)]*("[^"]*")))//g' | grep -oE '[A-Za-z_0-9]+ *[([]' | tr -d ' ([' | grep '^zl_'
}
promised() { # after the preprocessor a marked declaration has visibility("default"); its name stands before the first ( or [
    local header
    for header in "${headers[@]}"; do
        names "$header"
    done | sort -u | if [ "${headers[0]%/*}" = include ]; then cat; else comm -23 - <(names include/zellige.h | sort -u); fi
}
shown() { nm -D --defined-only "$library" | awk '{print $NF}' | sort -u; }

if ! difference=$(diff <(promised) <(shown)); then
    echo "$library differs from ${headers[*]} (< promised but not there, > there but not promised):"
    grep '^[<>]' <<<"$difference"
    exit 1
fi
echo "$(promised | wc -l) names"
