#!/usr/bin/env bash
# run_examples.sh BUILD - every program of example/ runs and ends well. Tile kernels do what the commands in their first
# comment say, and compute the same on every target that is here.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

for source in example/*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    check "example $name" "$build/example/$name"
done

export ZL_CACHE_DIR=$tmp/cache
sums() { # FILE SIZES TARGET: a line for each output, rounded: targets add in different orders
    "$build/zellige" kernel run "$1" --size "$2" --target "$3" --json | sed -nE 's/^ *"sum": //p' | xargs -rn 1 printf '%.4g\n'
}
for file in example/*.tile; do
    commands=$(sed -nE 's/^#   zellige //p' "$file")
    check "$file has commands" test "$commands"
    while read -r command; do
        # shellcheck disable=SC2086 # words of a command
        check "zellige $command" "$build/zellige" $command
    done <<<"$commands"
    sizes=$(sed -nE '/kernel run/s/.*--size //p' "$file" | tail -n 1)
    expected=$(sums "$file" "$sizes" c)
    if [ "$("$build/zellige" devices --json | grep -A2 '"device": "opencl"' | grep -c '"available": true')" -gt 0 ]; then
        check "$file on OpenCL gives the same" diff <(echo "$expected") <(sums "$file" "$sizes" opencl)
    else
        skip "$file on OpenCL" "no OpenCL device is here"
    fi
done
check "rows of softmax add up to 1" test "$(sums example/softmax.tile rows=7,n=1000 c)" = 7
finish
