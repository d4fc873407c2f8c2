#!/usr/bin/env bash
# tpu_compile.sh BUILD - pairs of op and dtype by Google's compiler for TPUs, without one: 24 by seed over five chips (SEED=N), and all of them for
# v6e and v7 in the long test, where 95 % have to compile. Its library, libtpu, has 205 MB to load and exists for x86_64 alone: where it is
# not installed (ZL_LIBTPU is its path), only the long test installs it.
# shellcheck disable=SC2317 # finish comes back to nobody, but not always is it reached
. "$(dirname "$0")/lib.sh"

libtpu=${ZL_LIBTPU:-$(ls "$build"/venv/lib/python3*/site-packages/libtpu/libtpu.so 2>/dev/null)}
if [ "$(uname -m)" != x86_64 ]; then
    skip "Google's compiler" "libtpu is for x86_64: build for it and run this by qemu-x86_64"
    finish
elif [ -z "$libtpu" ] && [ -z "${ZL_LONG:-}" ]; then
    skip "Google's compiler" "libtpu is not installed, and to load it takes longer than CI has: make test-long, or ZL_LIBTPU=/path/libtpu.so"
    finish
elif [ -z "$libtpu" ]; then
    python=$(tool/python.sh "$build" libtpu==0.0.51 2>"$tmp/why") || { skip "Google's compiler" "$(tail -n 1 "$tmp/why")"; finish; }
    libtpu=$("$python" -c 'import libtpu, os; print(os.path.join(os.path.dirname(libtpu.__file__), "libtpu.so"))')
fi

compile() { timeout -k 5 900 "$build/zellige" tpu compile --plugin "$libtpu" --json "$@" >"$tmp/said" 2>"$tmp/err"; }
count() { sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" "$tmp/said" | tail -n 1; }
# Whether most of what was tried compiled; prints what did not.
compiles() { # LEAST-PERCENT ARGUMENT...
    local least=$1 good bad left
    shift
    compile "$@"
    good=$(count compiled) bad=$(count refused) left=$(count on_the_cpu)
    python3 - "$tmp/said" <<'END'
import json, sys
for p in json.load(open(sys.argv[1]))["programs"]:
    if not p["compiled"]:
        print(p["program"], p["dtype"], p["reason"][:160])
END
    echo "$good compiled, $bad refused, $left on the CPU"
    [ $((100 * good)) -ge $((least * (good + bad))) ] && [ "$good" -gt 0 ]
}

seed=${SEED:-1}
for topology in v4:2x2x1 v5e:2x2 v5p:2x2x1 v6e:1x1 tpu7x:1x1x1; do
    check "pairs for $topology, seed $seed" compiles 80 --topology "$topology" ops --sample 5 --seed "$seed"
    seed=$((seed + 1))
done

# One row of a product takes no more estimated cycles than eight; without zeros beside it up to eleven times as many, but on TPU7x.
one_row_is_eight() { # TOPOLOGY
    echo '{"name": "rows", "seconds": 1, "items": [{"work": "gemm", "dtypes": ["bf16"], "sizes": [[1, 4096, 4096], [8, 4096, 4096]]}]}' >"$tmp/rows.json"
    compile --topology "$1" "$tmp/rows.json"
    python3 - "$tmp/said" <<'END'
import json, sys
one, eight = [p["estimated_cycles"] for p in json.load(open(sys.argv[1]))["programs"]]
print(f"{one:.0f} cycles against {eight:.0f}")
sys.exit(one > eight)
END
}
for topology in v4:2x2x1 v5e:2x2 v5p:2x2x1 v6e:1x1 tpu7x:1x1x1; do
    check "a product of one row costs no more than one of eight on $topology" one_row_is_eight "$topology"
done

if [ -n "${ZL_LONG:-}" ]; then
    for topology in v6e:1x1 tpu7x:1x1x1; do
        check "all pairs for $topology" compiles 95 --topology "$topology" ops
    done
fi
finish
