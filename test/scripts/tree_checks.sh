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

finds_prefix() { # FILE FUNCTION RULES REPORT: whether a function there is reported so, or, without a report, accepted
    built "$1" src/op/b.c "$2"
    echo "void $2(void); void $2(void) {}" >"$tmp/tree/$1"
    cc -c -o "$tmp/tree/build/CMakeFiles/objects.dir/$1.o" "$tmp/tree/$1" || return
    echo 'void op_b(void); void op_b(void) {}' >"$tmp/tree/src/op/b.c"
    cc -c -o "$tmp/tree/build/CMakeFiles/objects.dir/src/op/b.c.o" "$tmp/tree/src/op/b.c" || return
    printf '%b' "$3" >"$tmp/tree/tool/prefixes.txt"
    local text
    text=$(tool/prefixes.sh "$tmp/tree" "$tmp/tree/build") && { [ $# = 3 ]; return; }
    [ $# = 4 ] && grep -qF -- "$4" <<<"$text" || { echo "reported as: $text"; return 1; }
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

documents() { # a tree with a page, a picture, a site and the rules
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree"/{tool,doc/site}
    cp tool/docs.py tool/check_docs.py tool/words.txt "$tmp/tree/tool/"
    printf 'nav:\n  - doc/one.md\n  - doc/*.md\n\ntheme:\n' >"$tmp/tree/doc/site/mkdocs.yml"
    printf '# One: `a` & b\n\nSee [two](two.md#its-part) and [that\nheading](#one-a--b), not `[a](b)`.\n\n```c\nturned [a](b)\n```\n' >"$tmp/tree/doc/one.md"
    printf '# Two\n\n## Its part\n' >"$tmp/tree/doc/two.md"
}

accepts_documents() {
    documents
    python3 "$tmp/tree/tool/check_docs.py"
}

finds_in_documents() { # LINE-OF-one.md PATTERN TEXT: whether this text in that page is reported so, in its line
    documents
    printf '%b\n' "$3" >>"$tmp/tree/doc/one.md"
    local text
    text=$(python3 "$tmp/tree/tool/check_docs.py") && { echo "not reported"; return 1; }
    grep -qE "^doc/one.md:$1: .*$2" <<<"$text" || { echo "reported as: $text"; return 1; }
}

finds_in_navigation() { # LINE PATTERN SED-COMMAND: whether the site's list of pages, changed so, is reported
    documents
    sed -i "$3" "$tmp/tree/doc/site/mkdocs.yml"
    local text
    text=$(python3 "$tmp/tree/tool/check_docs.py") && { echo "not reported"; return 1; }
    grep -qE "^doc/site/mkdocs.yml:$1: $2" <<<"$text" || { echo "reported as: $text"; return 1; }
}

finds_in_sources() { # whether a retired word is found in a comment and in a message, and not in a name
    documents
    mkdir "$tmp/tree/src"
    printf 'int turned; // turned\nint b = 0;\nconst char *text = "half floats";\n' >"$tmp/tree/src/a.c"
    local text
    text=$(python3 "$tmp/tree/tool/check_docs.py" "$tmp/tree" src) && { echo "not reported"; return 1; }
    [ "$(cut -d: -f1,2 <<<"$text")" = "$(printf 'src/a.c:1\nsrc/a.c:3')" ] || { echo "reported as: $text"; return 1; }
}

finds_name() { # COMMENT [NAME]: whether a comment is reported for a name that the tree does not have, or, without one, accepted
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree"/{tool,src}
    touch "$tmp/tree/src/row_group.c"
    echo 'vec_x # of elsewhere' >"$tmp/tree/tool/foreign_names.txt"
    printf 'void run_it(void);\n#define SUM(T) sum_##T\nconst char *s = "// not_me"; // vec_x\n// %s\n' "$1" >"$tmp/tree/src/a.c"
    local text
    text=$(python3 tool/check_names.py "$tmp/tree") && { [ $# = 1 ]; return; }
    [ $# = 2 ] && [ "$text" = "src/a.c:4: nothing is called $2" ] || { echo "reported as: $text"; return 1; }
}

finds_long_line() { # a comment of 111 columns is found in its line; one of 110, and a table of longer lines, are accepted
    local text long
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree"/{tool,src}
    long=$(printf '%0107d' 0)
    printf '// %s\n// clang-format off\n// %s00\n// clang-format on\n// %s0\n' "$long" "$long" "$long" >"$tmp/tree/src/a.c"
    text=$(python3 tool/check_lines.py "$tmp/tree") && { echo "not reported"; return 1; }
    [ "$(cut -d: -f1,2 <<<"$text")" = src/a.c:5 ] || { echo "reported as: $text"; return 1; }
    sed -i 5d "$tmp/tree/src/a.c"
    python3 tool/check_lines.py "$tmp/tree"
}

# Fills paragraphs, items and quotes, keeps what may not be broken, and does nothing the second time.
fills_documents() {
    local word paragraph
    word=$(printf '%060d' 0)
    paragraph="$word $word"
    printf '%s\n' "a $paragraph" "" "- $paragraph" "> $paragraph" "" "| $paragraph |" "" '```' "$paragraph" '```' "\`$paragraph\`" >"$tmp/a.md"
    tool/wrap_documents.py --check "$tmp/a.md" >"$tmp/log" && { echo "not reported"; return 1; }
    [ "$(sed 's/.*a.md:\([0-9]*\):.*/\1/' "$tmp/log" | tr '\n' ' ')" = "1 3 4 " ] || { cat "$tmp/log"; return 1; }
    tool/wrap_documents.py "$tmp/a.md"
    printf '%s\n' "a $word" "$word" "" "- $word" "  $word" "> $word" "> $word" "" "| $paragraph |" "" '```' "$paragraph" '```' "\`$paragraph\`" | diff - "$tmp/a.md" &&
        tool/wrap_documents.py --check "$tmp/a.md"
}

finds_contracts() { # of functions in a header, those are found whose comment has no verb, or that have none
    local text
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree"/{tool,src}
    cp tool/verbs.txt "$tmp/tree/tool"
    cat >"$tmp/tree/src/a.h" <<'H'
// Returns the sum of a and b, which
// are small.
int sum(int a, int b);
int sum_of(const int *a,
           int count);

int last(void); // Returns the last.
// the first number
int first(void);

static inline int none(void) {
    return 0;
}
bool nobody_says(int a, int b);
typedef int function(int a);
H
    text=$(python3 tool/check_contracts.py --root "$tmp/tree") && { echo "not reported"; return 1; }
    [ "$(cut -d: -f1,2 <<<"$text" | tr '\n' ' ')" = "src/a.h:9 src/a.h:14 " ] || { echo "reported as: $text"; return 1; }
    sed -i -e 's|^// the first|// Returns the first|' -e '/nobody_says/d' "$tmp/tree/src/a.h"
    python3 tool/check_contracts.py --root "$tmp/tree"
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
check "prefixes of functions" tool/prefixes.sh . "$build"
check "prefixes accepts a folder's name" finds_prefix src/base/a.c base_a ''
check "prefixes accepts one that is given" finds_prefix src/base/a.c text_a 'src/base: text\n'
check "prefixes finds a name without one" finds_prefix src/base/a.c text_a '' 'src/base/a.c: text_a has none'
check "prefixes finds one of another folder" finds_prefix src/base/a.c op_a '' 'src/base/a.c: op_a has none'
check "prefixes finds one that is given twice" finds_prefix src/base/a.c text_a 'src/base: text\nsrc/op: text\n' 'both have text_'
check "prefixes finds the name of another folder given" finds_prefix src/base/a.c op_a 'src/base: op\n' 'the name of src/op'
check "prefixes finds one that nothing has" finds_prefix src/base/a.c base_a 'src/base: text\n' 'begins with text_'
check "exported names" tool/check_symbols.sh "$build/libzellige.so"
check "exported names of models" tool/check_symbols.sh "$build/libzellige_model.so" model/zellige_model.h model/zellige_nn.h
check "exported names finds one more" extra_symbol
check "generated files" tool/generate.sh "$build" --check
if python=$(tool/python.sh "$build" --of-core 2>&1); then
    check "names of mlx.core" "$python" tool/coverage.py "$build"
    check "names of mlx.core finds one that is missing" missing_name
else
    skip "names of mlx.core" "$python"
fi
if command -v python3 >/dev/null; then
    check "documents" python3 tool/check_docs.py
    check "pictures of results" python3 bench/pictures.py --check
    check "documents accepts what is right" accepts_documents
    check "documents finds a link to no file" finds_in_documents 10 'no such file: three.md' '\n[three](three.md)'
    check "documents finds a link that leaves the tree" finds_in_documents 9 'no such file: ../../' '[out](../../)'
    check "documents finds a link to no heading" finds_in_documents 10 'no such heading: two.md#other' '[a\nlink](two.md#other)'
    check "documents finds a link to no heading of its page" finds_in_documents 9 'no such heading: #one' '[a](#one)'
    check "documents finds a picture that is not there" finds_in_documents 9 'no such file: a.svg' '![a](a.svg)'
    check "documents finds a path that is not there" finds_in_documents 9 'no such file in the tree: doc/a.c' 'see `doc/a.c` and `doc/*.md`'
    check "documents finds a retired word across lines" finds_in_documents 9 '"behind each other"' 'numbers behind\neach other'
    check "documents finds a page that is not there" finds_in_navigation 2 'no such page: doc/one_.md' s/one.md/one_.md/
    check "documents finds a page without a place" finds_in_navigation 1 'nav has no line .* doc/two.md' 3d
    check "documents finds retired words in sources" finds_in_sources
    check "names in comments" python3 tool/check_names.py
    check "lines of 110 columns" python3 tool/check_lines.py
    check "lines finds a long comment and no table" finds_long_line
    check "paragraphs of documents" tool/wrap_documents.py --check
    check "documents are filled, but for what may not be broken" fills_documents
    check "contracts finds functions without a verb" finds_contracts
    check "names in comments accepts what is there" finds_name 'run_it() of row_group.c calls run_it; see row_group, run_x and NAME_it'
    check "names in comments finds a function that is gone" finds_name 'run_it calls run_that' run_that
    check "names in comments finds a call that is gone" finds_name 'as go() does' 'go()'
    check "names in comments finds a file that is gone" finds_name 'row_group.c and rows.c' rows.c
    check "names in comments finds a list's name that no comment needs" says 'no comment needs unused' sh -c \
        "cp -r tool '$tmp/named' && echo unused >>'$tmp/named/foreign_names.txt' && mkdir '$tmp/named.tree' &&
        mv '$tmp/named' '$tmp/named.tree/tool' && python3 tool/check_names.py '$tmp/named.tree'"
else
    skip "documents" "no python3"
fi
check "files open by saying what they are" opens_with_comment
check "files have at most 1,000 lines" short_enough
if command -v shellcheck >/dev/null; then
    check "shell scripts" shellcheck -S warning tool/*.sh test/scripts/*.sh scripts/*.sh .ci/run
else
    skip "shell scripts" "no shellcheck"
fi
finish
