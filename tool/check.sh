#!/usr/bin/env bash
# check.sh BUILD - what can be seen without running tests: layers, exported names, generated files, names of mlx.core,
# links and words of the documents, pictures, shell scripts.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

build=$1
failed=0
say() { printf '%-28s %s\n' "$1" "$2"; }

step() { # NAME COMMAND...
    local name=$1 text
    shift
    if text=$("$@" 2>&1); then
        say "$name" ok
    else
        say "$name" FAILED
        printf '%s\n' "$text"
        failed=1
    fi
}

step "layers" tool/layers.sh . "$build"
step "prefixes of functions" tool/prefixes.sh . "$build"
step "exported names" tool/check_symbols.sh "$build/libzellige.so"
step "exported names of models" tool/check_symbols.sh "$build/libzellige_model.so" model/zellige_model.h model/zellige_nn.h
step "generated files" tool/generate.sh "$build" --check
if python=$(tool/python.sh "$build" --of-core 2>&1); then
    step "names of mlx.core" "$python" tool/coverage.py "$build"
else
    say "names of mlx.core" "skipped: $python"
fi
if command -v python3 >/dev/null; then
    step "documents" python3 tool/check_docs.py . src cli model include python tool bench
    step "names in comments" python3 tool/check_names.py
    step "lines of 110 columns" python3 tool/check_lines.py
    step "paragraphs of documents" tool/wrap_documents.py --check
    step "contracts of functions" python3 tool/check_contracts.py
    step "pictures of results" python3 bench/pictures.py --check
else
    say "documents" "skipped: no python3"
fi
if command -v shellcheck >/dev/null; then
    step "shell scripts" shellcheck -S warning tool/*.sh test/scripts/*.sh scripts/*.sh .ci/run
else
    say "shell scripts" "skipped: no shellcheck"
fi
exit $failed
