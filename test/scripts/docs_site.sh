#!/usr/bin/env bash
# docs_site.sh BUILD - the site of the documents: it builds without a warning, has every page, and opens from disk without a network.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

if ! python=$(tool/python.sh "$build" mkdocs-material==9.8.1 2>"$tmp/why"); then
    skip "the site" "MkDocs of PyPI: $(tail -n 1 "$tmp/why")"
    finish
fi

mkdir "$tmp/build"
ln -s "$build/zellige" "$tmp/build/zellige"
site=$tmp/build/site

every_page() { # a page for each document, and the two that are made
    local page missing=0
    while read -r page; do
        [ -f "$site/${page%.md}.html" ] || { echo "no page for $page"; missing=1; }
    done < <(printf '%s\n' CONTRIBUTING.md CHANGELOG.md doc/api/all.md doc/command-line.md; find doc bench/results -name '*.md')
    [ -f "$site/index.html" ] || { echo "no page for README.md"; missing=1; }
    return $missing
}

# Scripts, styles and pictures of other hosts. Reports of `zellige bench` are files that pages link to.
fetches_nothing() {
    ! grep -rnoE '<(script|link|img|iframe)[^>]* (src|href)="?(https?:)?//[^" >]*' "$site" --include='*.html' | grep -v '/results/h200/' | grep .
}

has_commands() {
    local command
    for command in "kernel show" "bench run" "profile"; do
        grep -q "usage: zellige $command" "$site/doc/command-line.html" || { echo "nothing about $command"; return 1; }
    done
}

has_function() { grep -q 'href="elementwise.html#zl_add"' "$site/doc/api/all.html" && grep -q 'id="zl_add"' "$site/doc/api/elementwise.html"; }

check "the site builds" "$python" tool/docs.py "$tmp/build"
check "it has every page" every_page
check "it fetches nothing" fetches_nothing
check "what it searches in is a script" grep -q '^var __index = ' "$site/search/search_index.js"
check "search runs in a frame where workers cannot" grep -q 'doc/site/iframe-worker.js' "$site/index.html"
check "it tells of every command" has_commands
check "every op leads to its description" has_function
finish
