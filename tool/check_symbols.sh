#!/usr/bin/env bash
# check_symbols.sh LIBRARY - the shared library shows exactly the names that the public headers mark with
# ZL_API.
set -euo pipefail
cd "$(dirname "$0")/.."

library=$1
promised() { # after the preprocessor a marked declaration has visibility("default"); its name stands before the first (
    local header
    for header in include/*.h; do
        ${CC:-cc} -E -P -Iinclude "$header"
    done | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
        sed 's/__attribute__ *(([^)]*("[^"]*")))//g' | grep -oE '[A-Za-z_0-9]+ *\(' | tr -d ' (' | grep '^zl_' | sort -u
}
shown() { nm -D --defined-only "$library" | awk '{print $NF}' | sort -u; }

if ! difference=$(diff <(promised) <(shown)); then
    echo "$library differs from include/*.h (< promised but not there, > there but not promised):"
    grep '^[<>]' <<<"$difference"
    exit 1
fi
echo "$(promised | wc -l) names"
