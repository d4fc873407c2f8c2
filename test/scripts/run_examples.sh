#!/usr/bin/env bash
# run_examples.sh BUILD - every program of example/ runs and ends well.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

for source in example/*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    check "example $name" "$build/example/$name"
done
finish
