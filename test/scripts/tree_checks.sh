#!/usr/bin/env bash
# tree_checks.sh BUILD - the rules of the tree hold, and the scripts that check them find what breaks them.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

tree() { # an empty tree with the rules
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree"/{tool,cli,src/base,src/graph,src/op}
    cp tool/layers.txt "$tmp/tree/tool/"
}

finds() { # FILE INCLUDE: whether this line in this file is reported
    tree
    echo "#include \"$2\"" >"$tmp/tree/$1"
    local text
    text=$(tool/layers.sh "$tmp/tree") && { echo "not reported"; return 1; }
    grep -q "^$1:1: " <<<"$text" || { echo "reported as: $text"; return 1; }
}

accepts() { # FILE INCLUDE
    tree
    touch "$tmp/tree/cli/cli.h"
    echo "#include \"$2\"" >"$tmp/tree/$1"
    tool/layers.sh "$tmp/tree"
}

built() { # CALLER CALLEE [FUNCTION]: a tree, and a build of it, in which a file calls a function of another
    local object="$tmp/tree/build/CMakeFiles/objects.dir"
    tree
    mkdir -p "$tmp/tree/src/schedule" "$object"/src/{base,graph,op,schedule}
    echo "void ${3:-graph_b}(void); void a(void); void a(void) { ${3:-graph_b}(); }" >"$tmp/tree/$1"
    echo "void ${3:-graph_b}(void); void ${3:-graph_b}(void) {}" >"$tmp/tree/$2"
    cc -c -o "$object/$1.o" "$tmp/tree/$1" && cc -c -o "$object/$2.o" "$tmp/tree/$2"
}

finds_call() { # CALLER CALLEE [FUNCTION]
    built "$@" || return
    local text
    text=$(tool/layers.sh "$tmp/tree" "$tmp/tree/build") && { echo "not reported"; return 1; }
    grep -q "^$1: .* ${3:-graph_b}, which is in $2$" <<<"$text" || { echo "reported as: $text"; return 1; }
}

accepts_call() { # CALLER CALLEE [FUNCTION [gone]]
    built "$@" || return
    [ "${4:-}" != gone ] || rm "$tmp/tree/$1"
    tool/layers.sh "$tmp/tree" "$tmp/tree/build"
}

extra_symbol() { # a library that shows one name more than the headers promise
    echo 'int surprise(void); int surprise(void) { return 0; }' >"$tmp/extra.c"
    cc -shared -fPIC -o "$tmp/extra.so" "$tmp/extra.c" -Wl,--whole-archive "$build/libzellige.a" \
        -Wl,--no-whole-archive -lm || return
    says '> surprise' tool/check_symbols.sh "$tmp/extra.so"
}

opens_with_comment() { # every file says what it is in its first line
    local file bad=0
    while read -r file; do
        head -n 1 "$file" | grep -qE '^(//|/\*|#)' || { echo "$file: no first comment"; bad=1; }
    done < <(find include src cli test bench example tool \( -name '*.[ch]' -o -name '*.def' -o -name '*.sh' \) ! -path '*/golden/*')
    return $bad
}

short_enough() { # a file of more than 1,000 lines is to be split by idea
    local long
    long=$(find include src cli test bench example tool -name '*.[ch]' -exec wc -l {} + |
        awk '$2 != "total" && $1 > 1000')
    [ -z "$long" ] || { echo "$long"; return 1; }
}

missing_name() { # a name of MLX that is not here
    printf 'core: add no_such_name\n' >"$tmp/names"
    says 'no_such_name.*missing' "$python" tool/coverage.py "$build" "$tmp/names"
}

check "layers" tool/layers.sh . "$build"
check "layers finds base using graph" finds src/base/a.c graph/graph.h
check "layers finds a path that climbs" finds src/base/b.c ../graph/graph.h
check "layers finds an unknown folder" finds src/base.c graph/graph.h
check "layers finds the program looking inside" finds cli/c.c base/base.h
check "layers accepts what is allowed" accepts src/op/d.c graph/graph.h
check "layers accepts public headers" accepts cli/e.c zellige.h
check "layers finds base calling graph" finds_call src/base/a.c src/graph/b.c
check "layers finds op calling what only one file may" finds_call src/op/a.c src/schedule/b.c zl_eval_all
check "layers accepts a call that is allowed" accepts_call src/op/a.c src/graph/b.c
check "layers accepts a call that one file may make" accepts_call src/op/op_help.c src/schedule/b.c zl_eval_all
check "layers accepts objects whose source is gone" accepts_call src/base/a.c src/graph/b.c graph_b gone
check "layers finds a build without objects" says 'build it first' tool/layers.sh . "$tmp"
check "layers accepts a folder's own header" accepts cli/f.c cli.h
check "exported names" tool/check_symbols.sh "$build/libzellige.so"
check "exported names of models" tool/check_symbols.sh "$build/libzellige_model.so" model/zellige_model.h
check "exported names finds one more" extra_symbol
check "generated files" tool/generate.sh "$build" --check
if python=$(tool/python.sh "$build" --of-core 2>&1); then
    check "names of mlx.core" "$python" tool/coverage.py "$build"
    check "names of mlx.core finds one that is missing" missing_name
else
    skip "names of mlx.core" "$python"
fi
check "files open by saying what they are" opens_with_comment
check "files have at most 1,000 lines" short_enough
if command -v shellcheck >/dev/null; then
    check "shell scripts" shellcheck -S warning tool/*.sh test/scripts/*.sh scripts/*.sh .ci/run
else
    skip "shell scripts" "no shellcheck"
fi
finish
