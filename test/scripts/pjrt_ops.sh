#!/usr/bin/env bash
# pjrt_ops.sh BUILD - the device pjrt on XLA's CPU plugin, from PyPI: the layout of its structs against the header that the package has, its own
# tests, and the tests of ops, of which a seeded sample is compiled (SAMPLE=N:SEED; all of it with ZL_LONG=1). What Google's compiler for TPUs
# says is test/scripts/tpu_compile.sh.
. "$(dirname "$0")/lib.sh"

if ! python=$(tool/python.sh "$build" xla-cpu-pjrt==0.0.1 2>"$tmp/why"); then
    skip "the device pjrt" "PyPI's package xla-cpu-pjrt cannot be installed: $(tail -n 1 "$tmp/why")"
    finish
fi
package=$("$python" -c 'import xla_plugins, os; print(os.path.join(list(xla_plugins.__path__)[0], "xla_cpu_pjrt"))')
export ZL_PJRT=$package/xla_cpu_pjrt.so
export ZL_CACHE_DIR=$tmp/cache # programs that an earlier run kept would not be compiled

check "the published header lays out structs as ours does" cc -std=c11 -fsyntax-only -Isrc -I"$package/include" test/scripts/pjrt_header.c

# LLVM takes a CPU for one with SVE by its part number; where the system hides SVE it is shown another one (doc/tpu.md).
if [ "$(uname -m)" = aarch64 ] && ! grep -qw sve /proc/cpuinfo; then
    export LD_PRELOAD=$build/fake/libcpuinfo.so
fi
if ! ZL_DEVICE=cpu "$build/zellige" devices | grep -q '^pjrt *0'; then
    skip "programs" "$(ZL_DEVICE=cpu "$build/zellige" devices | grep '^pjrt')"
    finish
fi
check "its devices have a kind" says '^cpu$' "$build/zellige" bench kinds "$ZL_PJRT"

jobs=(--jobs "$(nproc)")
[ -z "${SAMPLE:-}" ] || jobs+=(--sample device/test_pjrt)
add "$build/test" "${jobs[@]}" device/test_pjrt:

# Some 1,700 programs, each of which compiles for some 100 ms on one core.
sample=${SAMPLE:-6:1}
[ -z "${ZL_LONG:-}" ] || sample=${SAMPLE:-1}
# One counts plans, of which a static device has one for each size; others compare the bits of two ways to add products, which XLA contracts.
except=(--except steps_that_grow_make_nothing_new --except gradients_of_slices)
# XLA takes subnormal numbers for 0, and its functions of float64 and complex64 err by more units than ours may (doc/tpu.md, "Differences").
except+=(--except math_of_)
env ZL_DEVICE=pjrt ZL_SAMPLE="$sample" ZL_DUMP=stablehlo "$build/test" --brief "${jobs[@]}" "${except[@]}" op/ >"$tmp/programs" 2>&1
add grep -aE '^(  [^ ]|FAILED|skipped|op/|[0-9]+ passed)' "$tmp/programs"
programs=$(grep -ac '^module @zl' "$tmp/programs")
echo "$programs programs were compiled (sample $sample)"
check "a sample large enough was compiled" test "$programs" -ge "${LEAST:-1500}"
finish
