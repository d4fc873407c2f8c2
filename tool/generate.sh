#!/usr/bin/env bash
# generate.sh BUILD [--check] - builds zellige-gen and writes the generated files that are committed:
# include/zellige_ops.h, zellige_matrix_ops.h, zellige_checks.h, doc/api and doc/environment.md. They are made beside, and replaced only when they changed.
# --check changes nothing and fails if something would change, or if git has another text than the generator makes.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
check=${2:-}
headers=(include/zellige_ops.h include/zellige_matrix_ops.h include/zellige_checks.h)
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# The generator is made of the ops, and ops call each other by the header that it writes. After a change of an op the
# header may be too old to compile them: then its prototypes are taken from the definitions, for this once.
provisional_header() {
    local source
    touch "${headers[@]}"
    echo "// Provisional, from the definitions in src/op: \`make generate\` writes the real one."
    echo '#ifdef __cplusplus'
    echo 'extern "C" {'
    echo '#endif'
    for source in src/op/*.c; do
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -DZL_PLAIN_CALLS -E -P -Iinclude -Isrc "$source" 2>/dev/null || true
    done | tr '\n' ' ' | sed -E 's/\bstatic (inline )?(zl_array|bool|_Bool) zl_/ /g' |
        grep -oE '\b(zl_array|bool|_Bool) zl_[a-z0-9_]+\([^(){};]*\) *\{' |
        sed 's/ *{$/;/; s/_Bool/bool/g; s/^/ZL_API /' | sort -u
    echo '#ifdef __cplusplus'
    echo '}'
    echo '#endif'
}

build_generator() { cmake --build "$build" --parallel "$(nproc)" --target zellige-gen; }

generator=$(sed -n 's/^ZL_GEN:FILEPATH=//p' "$build/CMakeCache.txt")
if [ -z "$generator" ]; then
    generator=$build/zellige-gen
    if [ "$check" ]; then
        build_generator >/dev/null
    elif ! ls "${headers[@]}" >/dev/null 2>&1 || ! build_generator >"$new/log" 2>&1; then
        provisional_header >"$new/provisional.h"
        mkdir "$new/old"
        cp -p "${headers[@]}" "$new/old"
        cp "$new/provisional.h" "${headers[0]}"
        : >"${headers[1]}"
        : >"${headers[2]}"
        build_generator || { # some other mistake
            cp -p "$new"/old/* include
            exit 1
        }
    fi
fi

mkdir -p "$new/tree/include" "$new/tree/doc/api"
"$generator" headers "$new/tree/include"
"$generator" docs "$new/tree/doc"
mapfile -t made < <(cd "$new/tree" && find . -type f | sed 's,^\./,,' | sort)

changed=()
for file in "${made[@]}"; do
    cmp -s "$new/tree/$file" "$file" && continue
    changed+=("$file")
    [ "$check" ] || { mkdir -p "$(dirname "$file")" && cp "$new/tree/$file" "$file"; }
done

# Pages of what is gone.
while read -r page; do
    [ -e "$new/tree/$page" ] && continue
    changed+=("$page")
    [ "$check" ] || rm "$page"
done < <([ ! -d doc/api ] || find doc/api -type f)

[ ${#changed[@]} = 0 ] || printf 'generate: %s changed\n' "${changed[@]}"
[ "$check" ] || exit 0
[ ${#changed[@]} = 0 ] || exit 1

# What a fresh clone would get. Staged is enough; a tree without git, or files not yet added, cannot be compared.
if git ls-files --error-unmatch "${headers[@]}" >/dev/null 2>&1; then
    left=$(git diff --name-only -- "${made[@]}" doc/api; git ls-files --others -- "${made[@]}")
    if [ "$left" ]; then
        echo "generate: these generated files differ from what git has; git add them with their source:"
        printf '%s\n' "$left"
        exit 1
    fi
fi
