#!/usr/bin/env bash
# cli_program.sh BUILD - the `zellige` program: exit codes, JSON, suggestions, colours, completion, man page.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
version=$(sed -n 's/^#define ZL_VERSION_[A-Z]* *//p' include/zellige.h | paste -sd.)
is_json() { "$@" | python3 -c 'import json, sys; json.load(sys.stdin)'; }
json_has() { # PYTHON-CONDITION COMMAND...: on the parsed document d
    local condition=$1
    shift
    { "$@" || true; } | python3 -c "import json, sys; d = json.load(sys.stdin); sys.exit(0 if ($condition) else repr(d))"
}
silent() { # COMMAND...: prints nothing at all
    [ -z "$("$@" 2>&1)" ]
}

cat >"$tmp/broken.tile" <<'END'
kernel broken( {
END
cat >"$tmp/twice.tile" <<'END'
kernel twice(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = a[i] * 2.0 } }
END

# Exit codes and messages.
check "version" says "^zellige $version$" "$zellige" version
check "--version" says "^zellige $version$" "$zellige" --version
check "version -v shows the headers" says "^headers $version$" "$zellige" version -v
check "no command is a usage error" exits 2 "$zellige"
check "unknown command is a usage error" exits 2 "$zellige" frobnicate
check "unknown command suggests the nearest" says "did you mean 'devices'" "$zellige" devcies
check "unknown second word suggests" says "did you mean 'kernel show'" "$zellige" kernel shwo
check "a group alone says what it has" says "needs one of: show" "$zellige" kernel
check "unknown option suggests" says "did you mean '--json'" "$zellige" devices --jsno
check "unknown option is a usage error" exits 2 "$zellige" devices --frobnicate
check "an option without its value" exits 2 "$zellige" kernel show --stage
check "a flag with a value" exits 2 "$zellige" devices --json=1
check "one argument too many" exits 2 "$zellige" version 1
check "usage errors are JSON too" json_has "'no command' in d['error']" "$zellige" frobnicate --json
check "output that cannot be written fails" exits 1 sh -c "'$zellige' help > /dev/full"

# Help.
check "help" says "^  devices" "$zellige" help
check "help of a command" says "^usage: zellige kernel show" "$zellige" help kernel show
check "--help of a command" says "^usage: zellige kernel show" "$zellige" kernel show --help
check "help of a group" says "^  kernel show" "$zellige" help kernel
check "--help of a group" says "^  kernel show" "$zellige" kernel --help
check "help environment" says "THREADS" "$zellige" help environment
check "help --json" json_has "any(c['name'] == 'devices' for c in d['commands'])" "$zellige" help --json

# Devices.
check "devices shows the cpu" says "^cpu +0" "$zellige" devices
check "devices --json" json_has "any(x['device'] == 'cpu' and x['available'] for x in d)" "$zellige" devices --json
check "devices says why others are not here" json_has "all(x['available'] or x['reason'] for x in d)" \
    "$zellige" devices --json
check "devices marks the default" json_has "[x['device'] for x in d if x.get('is_default')] == ['cpu']" "$zellige" devices --json
check "devices marks no default that is not here" json_has "not any(x.get('is_default') for x in d)" \
    env ZL_DEVICE=abacus "$zellige" devices --json
if [ -d "$build/fake" ]; then
    check "the first GPU is the default" says "^cuda +0.*, the default" env ZL_DEVICE= LD_LIBRARY_PATH="$build/fake" "$zellige" devices
    check "a driver without devices is passed over" says "^cpu +0.*, the default" \
        env ZL_DEVICE= FAKE_CUDA_DEVICES=0 LD_LIBRARY_PATH="$build/fake" "$zellige" devices
    check "a driver that does not start is passed over" says "^cpu +0.*, the default" \
        env ZL_DEVICE= FAKE_CUDA_DOWN=1 LD_LIBRARY_PATH="$build/fake" "$zellige" devices
fi
check "no colours in a pipe" sh -c "! '$zellige' devices | grep -q \$'\\033'"
if script -qec true /dev/null >/dev/null 2>&1; then
    check "colours on a terminal" says $'\033' env TERM=xterm NO_COLOR= script -qec "'$zellige' devices" /dev/null
    check "NO_COLOR on a terminal" sh -c "! TERM=xterm NO_COLOR=1 script -qec \"'$zellige' devices\" /dev/null | grep -q \$'\\033'"
else
    skip "colours" "script(1) cannot make a terminal here"
fi

# Profiles.
check "profile runs a program" says "^profile of" "$zellige" profile -o "$tmp/profile.json" "$build/example/linear_regression"
check "profile leaves a timeline" json_has "any(e['name'] == 'matmul' for e in d['traceEvents'])" cat "$tmp/profile.json"
check "profile finds out peaks" says "matmul .* %$" "$zellige" profile -o "$tmp/profile.json" "$build/example/linear_regression"
check "or is given them" says "matmul .* -$" "$zellige" profile --peaks null.bytes=1 -o "$tmp/profile.json" "$build/example/linear_regression"
check "what follows the program belongs to it" says "^--frob -v$" "$zellige" profile --peaks a=1 echo --frob -v
check "the program's exit code is that of profile" exits 7 "$zellige" profile --peaks a=1 sh -c "exit 7"
check "profile of nothing" exits 2 "$zellige" profile
check "profile of no such program" says "cannot run 'nosuch': No such file" "$zellige" profile --peaks a=1 nosuch
in_folder() { (cd "$tmp" && "$zellige" profile --peaks a=1 sh -c "cd / && '$build/example/linear_regression'" && [ -s zellige-profile.json ]); }
check "the timeline is where profile was started" in_folder

# Kernels.
check "kernel show of an op" says "kernel" "$zellige" kernel show --op add --dtype f32
check "kernel show for C" says "[;{]" "$zellige" kernel show --op add --dtype f32 --target c
check "kernel show for CUDA" says "__global__ void" "$zellige" kernel show --op add --dtype f32 --target cuda
check "kernel show for OpenCL" says "^__kernel" "$zellige" kernel show --op add --dtype f32 --target opencl
check "kernel show --stage all" says "^// tile" "$zellige" kernel show --op add --stage all
check "kernel show --stage all of a kernel of blocks" says "^// hip_tiles" "$zellige" kernel show test/render/kernels/softmax.tile \
    --stage all
check "kernel show --stages" says "^tile$" "$zellige" kernel show --stages
passes() { # those of the page on passes are those that there are
    diff <(sed -n 's/^| `\([a-z_]*\)` | .*/\1/p' doc/add-a-pass.md) <("$zellige" kernel show --stages | sed -n '2,/^vectorise$/p')
}
check "doc/add-a-pass.md has every pass" passes
check "kernel show --json" json_has "d[0]['stage'] == 'tile' and d[0]['text']" "$zellige" kernel show --op add --json
check "kernel overrides" says "^cuda cublaslt  library" "$zellige" kernel overrides
check "those that are texts tell their lines" says "^cuda quantized_lines  kernel, [0-9]* lines" "$zellige" kernel overrides
check "and what runs their ops otherwise" says "^  otherwise   tile kernels" "$zellige" kernel overrides
check "kernel overrides --json" json_has "len(d) <= 12 and sum(o['lines'] for o in d) <= 900 and all(o['reason'] for o in d)" \
    "$zellige" kernel overrides --json
check "kernel overrides takes no file" exits 2 "$zellige" kernel overrides gemm.tile
check "kernel show of nothing" exits 2 "$zellige" kernel show
check "kernel show of no such file" exits 1 "$zellige" kernel show "$tmp/none.tile"
check "a file that cannot be read is named with the reason" says "none.tile: No such file" "$zellige" kernel show "$tmp/none.tile"
check "so is a folder" says "cannot read /tmp: Is a directory" "$zellige" kernel build /tmp
check "kernel show of a broken file" exits 1 "$zellige" kernel show "$tmp/broken.tile"
check "a broken file is named with its line" says "broken\.tile:1" "$zellige" kernel show "$tmp/broken.tile"
check "kernel show of an unknown op" exits 1 "$zellige" kernel show --op frobnicate
check "ops are named then" says "no op 'reduce_frob'; add, cast_f16" "$zellige" kernel show --op reduce_frob
check "kernel show of an unknown stage" exits 1 "$zellige" kernel show --op add --stage frobnicate
check "stages are listed then" says "no stage 'frobnicate'; there are: tile, .*cuda_tiles" "$zellige" kernel show --op add --stage frobnicate
check "kernel build" says "compiled for c in" "$zellige" kernel build "$tmp/twice.tile"
check "without a folder for compiled kernels" says "as HOME is not set" env -u HOME -u XDG_CACHE_HOME -u ZL_CACHE_DIR "$zellige" kernel build "$tmp/twice.tile"
check "kernel build -v" says "twice_blocks" "$zellige" kernel build -v "$tmp/twice.tile"
check "kernel build --json" json_has "d['milliseconds'] > 0 and d['source']" "$zellige" kernel build --json "$tmp/twice.tile"
check "kernel build of a broken file" exits 1 "$zellige" kernel build "$tmp/broken.tile"
check "kernel build for no target" says "no target 'abacus'; there are: auto, c" "$zellige" kernel build --target abacus "$tmp/twice.tile"
check "kernel run" says "^y, sum " "$zellige" kernel run "$tmp/twice.tile" --size n=5
check "kernel run --json" json_has "d[0]['name'] == 'y'" "$zellige" kernel run "$tmp/twice.tile" --size n=5 --json
check "kernel run prints small results as they are" says '^array\(\[([^,]*, ){63}[^,]*\], dtype' "$zellige" kernel run "$tmp/twice.tile" --size n=64
check "kernel run abbreviates large results" says '^array\(\[([^,]*, ){3}\.\.\., ([^,]*, ){2}[^,]*\], dtype' "$zellige" kernel run "$tmp/twice.tile" --size n=65
all_elements() { [ "$("$zellige" kernel run "$tmp/twice.tile" --size n=2000 --all | tail -n 1 | tr -cd , | wc -c)" = 2000 ]; }
check "kernel run --all prints them" all_elements
cat >"$tmp/twice.c" <<'C'
#include "ppl_helper.h"
typedef struct { global_addr_t y, x; int n; float by; } arguments_t;
int twice(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    dim4 shape = {1, 1, 1, a.n};
    tpu_initialize();
    tpu_gdma_cpy_S2L(0, a.x, &shape, NULL, NULL, DT_FP32);
    tpu_bdc_fp_mul_C(0, 0, (scalar_t){.f32 = a.by}, &shape, NULL, NULL, DT_FP32);
    tpu_gdma_cpy_L2S(a.y, 0, &shape, NULL, NULL, DT_FP32);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(twice)
C
python3 -c "
import struct
header = \"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\".ljust(117) + chr(10)
open('$tmp/x.npy', 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + struct.pack('<4f', 1, 2, 3, 4))"
device_c() { "$zellige" kernel run "$tmp/twice.c" --target bm1690 --entry twice "$@"; }
check "kernel run of device C" says "^3 commands, 32 bytes moved, 0 bank conflicts, 0 elements" device_c "out:$tmp/y.npy:f32[4]" "in:$tmp/x.npy" i32:4 f32:2
check "its outputs are files" python3 -c "
import struct
assert struct.unpack('<4f', open('$tmp/y.npy', 'rb').read()[-16:]) == (2, 4, 6, 8)"
cp "$tmp/y.npy" "$tmp/z.npy"
check "device C updates a file" device_c "inout:$tmp/z.npy" "in:$tmp/x.npy" i32:2 f32:10
check "the rest of which stays" python3 -c "
import struct
assert struct.unpack('<4f', open('$tmp/z.npy', 'rb').read()[-16:]) == (10, 20, 6, 8)"
not_saved() { device_c "out:$tmp/none/y.npy:f32[4]" "in:$tmp/x.npy" i32:4 f32:2; }
check "outputs that cannot be written are a failure" exits 1 not_saved
check "kernel run of device C --json" json_has "d['commands'] == 3 and d['scalars'] == 0" device_c "out:$tmp/y.npy:f32[4]" "in:$tmp/x.npy" i32:4 f32:2 --json
check "kernel run of device C --trace" says "0 tpu_bdc_fp_mul_C dst_addr=0x0" device_c "out:$tmp/y.npy:f32[4]" "in:$tmp/x.npy" i32:4 f32:2 --trace
check "a command that breaks a rule is named" says "tpu_gdma_cpy_S2L: src_addr" device_c "out:$tmp/y.npy:f32[4]" "in:$tmp/x.npy" i32:5 f32:2
check "an argument of device C that is none" says "'i32:x' is no argument" device_c i32:x
check "device C needs an entry" says "needs --entry" "$zellige" kernel run "$tmp/twice.c" --target bm1690
check "device C needs a chip" says "device C is run for 'bm1690'" "$zellige" kernel run "$tmp/twice.c" --target c --entry twice
check "kernel bench has no --all" exits 2 "$zellige" kernel bench "$tmp/twice.tile" --size n=5 --all
if "$zellige" devices --json | python3 -c "import json, sys; sys.exit(not any(d['device'] == 'opencl' and d.get('is_cpu') for d in json.load(sys.stdin)))"; then
    remark='remark: this opencl device is the machine.s CPU'
    check "devices says that OpenCL is the CPU" says "$remark" "$zellige" devices
    check "so does kernel bench" says "^$remark" "$zellige" kernel bench "$tmp/twice.tile" --size n=1000 --target opencl
    check "and kernel tune" says "^$remark" "$zellige" kernel tune "$tmp/twice.tile" --param B=1 --size n=1000 --target opencl
    check "as JSON" json_has "d['is_cpu']" "$zellige" kernel bench "$tmp/twice.tile" --size n=1000 --target opencl --json
else
    skip "the remark on OpenCL" "no OpenCL device that is a CPU is here"
fi
check "times of a chip that is emulated are modelled" says "modelled" "$zellige" kernel bench "$tmp/twice.tile" --size n=1000 --target bm1690
check "so is what its engines do" says "us modelled: compute .* % of the lanes, copies" "$zellige" kernel bench "$tmp/twice.tile" --size n=1000 --target bm1690
check "as JSON too" json_has "d['is_modelled'] and d['commands'] > 0 and d['scalars'] == 0" "$zellige" kernel bench "$tmp/twice.tile" --size n=1000 --target bm1690 --json
no_remark() { ! "$zellige" kernel bench "$tmp/twice.tile" --size n=1000 | grep remark; }
check "no remark on the CPU itself" no_remark
check "errors have no escape sequences" says "no command '\?\[2J'" "$zellige" $'\033[2J'
check "kernel run without a size" says "needs --size with a number for n" "$zellige" kernel run "$tmp/twice.tile"
check "kernel run with a size that there is not" says "has no size 'm'" "$zellige" kernel run "$tmp/twice.tile" --size n=5,m=6
check "kernel run without a size is wrong use" exits 2 "$zellige" kernel run "$tmp/twice.tile"
check "kernel run with a size that is no number" exits 2 "$zellige" kernel run "$tmp/twice.tile" --size n=many
check "kernel bench" says "GFLOP/s" "$zellige" kernel bench "$tmp/twice.tile" --size n=1000
printf 'kernel f(a: f32[n]) -> (y: f32[n]) {\n  param B = 64, C = 1\n  grid b in ceildiv(n, B) {\n    local t: f32[B]\n    copy a[b * B] -> t\n    copy t -> y[b * B]\n  }\n}\n' >"$tmp/blocks.tile"
check "kernel tune" says "B=32,C=1 .* ms" "$zellige" kernel tune "$tmp/blocks.tile" --param B=32,128,9000000,C=1 --size n=1000
check "kernel tune: a row that does not compile" says "B=9000000,C=1 .*more than 4 MiB" "$zellige" kernel tune "$tmp/blocks.tile" --param B=32,128,9000000,C=1 --size n=1000
check "kernel tune keeps its rows" says "as measured before" "$zellige" kernel tune "$tmp/blocks.tile" --param B=32,128,9000000,C=1 --size n=1000
check "kernel tune --json" json_has "d['best'] == 'B=32' and len(d['rows']) == 1" "$zellige" kernel tune "$tmp/blocks.tile" --param B=32 --size n=1000 --json
check "kernel tune by a model" says "B=128 .* ms \(modelled\)" "$zellige" kernel tune "$tmp/blocks.tile" --param B=64,128 --size n=1000 --target bm1690
check "kernel tune by a model keeps its rows" says "as modelled before" "$zellige" kernel tune "$tmp/blocks.tile" --param B=64,128 --size n=1000 --target bm1690
check "kernel tune by a model, as JSON" json_has "d['is_modelled'] and d['from_disk'] and len(d['rows']) == 2" \
    "$zellige" kernel tune "$tmp/blocks.tile" --param B=64,128 --size n=1000 --target bm1690 --json
printf 'kernel f(a: f32[n]) -> (y: f32[n]) {\n  param S = 1\n  map i in n {\n    x = 0i64\n    while x < 10 { x = x + S }\n    y[i] = f32(x)\n  }\n}\n' >"$tmp/hangs.tile"
check "kernel tune: a row that hangs" says "S=0 .*more than 1 s" "$zellige" kernel tune "$tmp/hangs.tile" --param S=0,1 --size n=4 --timeout 1
check "kernel tune interrupted" interrupted has_child 1 '^zellige kernel tune: interrupted: not all was timed' \
    "$zellige" kernel tune "$tmp/hangs.tile" --param S=0,2 --size n=4 --timeout 60
nobody_is_left() { ! grep -lqs "$tmp/hangs.tile" /proc/[0-9]*/cmdline; }
check "kernel tune interrupted leaves no process" nobody_is_left
printf 'type ITEM = f32\nop COMBINE = add\nkernel f(a: ITEM[n]) -> (y: ITEM[1]) {\n  reduce COMBINE a -> y axis 0\n}\n' >"$tmp/open.tile"
check "kernel show --param" says "reduce maximum a" "$zellige" kernel show "$tmp/open.tile" --param COMBINE=maximum
if [ -d "$build/fake" ]; then
    on_gpu=(env ZL_DEVICE= "LD_LIBRARY_PATH=$build/fake" "$zellige" kernel)
    check "kernel build follows the default device" says "compiled for cuda in" "${on_gpu[@]}" build "$tmp/twice.tile"
    check "kernel build --target auto" says "compiled for cuda in" "${on_gpu[@]}" build "$tmp/twice.tile" --target auto
    check "kernel build --target c" says "compiled for c in" "${on_gpu[@]}" build "$tmp/twice.tile" --target c
    same_results() { [ "$("${on_gpu[@]}" run "$tmp/twice.tile" "$@")" = "$("$zellige" kernel run "$tmp/twice.tile" "$@")" ]; }
    check "kernel run on the default device" same_results --size n=100
    check "kernel tune on the default device" says "1.000 ms +best" "${on_gpu[@]}" tune "$tmp/open.tile" --param ITEM=f32 --size n=100
fi
check "kernel build --param" says "compiled for c in" "$zellige" kernel build "$tmp/open.tile" --param ITEM=f16
check "kernel run --param" says "y, sum 7:" "$zellige" kernel run "$tmp/open.tile" --param ITEM=i32,COMBINE=maximum --size n=1000
check "kernel bench --param" says " ms, " "$zellige" kernel bench "$tmp/open.tile" --param ITEM=i8 --size n=1000
check "kernel tune of types" says "ITEM=f16 .* ms" "$zellige" kernel tune "$tmp/open.tile" --param ITEM=f32,f16 --size n=1000
check "kernel show --op with --param" exits 2 "$zellige" kernel show --op add --param ITEM=f16
check "kernel run of no such type" says "'f33' is given for the type ITEM" "$zellige" kernel run "$tmp/open.tile" --param ITEM=f33 --size n=4
check "kernel tune of no such param" says "no param 'X'" "$zellige" kernel tune "$tmp/blocks.tile" --param X=1 --size n=1000
check "kernel tune without values" exits 2 "$zellige" kernel tune "$tmp/blocks.tile" --size n=1000
check "kernel tune without sizes" exits 2 "$zellige" kernel tune "$tmp/blocks.tile" --param B=32
check "kernel bench of nothing" exits 2 "$zellige" kernel bench
check "failures are JSON too" is_json sh -c "'$zellige' kernel show --op frobnicate --json || true"
round_trip() { # what it prints, it reads
    "$zellige" kernel show --op add >"$tmp/add.tile" && "$zellige" kernel show "$tmp/add.tile" >"$tmp/again.tile" &&
        diff "$tmp/add.tile" "$tmp/again.tile" && "$zellige" kernel show - <"$tmp/add.tile" | diff "$tmp/add.tile" -
}
check "what kernel show prints, it reads" round_trip

# Completion: each shell at least parses it, and bash completes.
completes() { # WANTED WORD...: bash offers this for the words, the last one unfinished
    local wanted=$1
    shift
    bash -c 'eval "$("$0" completion bash)"; COMP_WORDS=(zellige "$@"); COMP_CWORD=$#; _zellige
             printf "%s\n" "${COMPREPLY[@]}"' "$zellige" "$@" | grep -xF -- "$wanted" >/dev/null # all of it is read: nobody is cut short
}
check "bash completes a command" completes devices dev
check "bash completes a second word" completes show kernel sh
check "bash completes an option" completes --stage kernel show --st
check "bash completes an option's value" completes f32 kernel show --op add --dtype f3
check "bash completes an operand" completes fish completion f
check "completion of an unknown shell" exits 2 "$zellige" completion tcsh
for shell in zsh fish; do
    if command -v $shell >/dev/null; then
        "$zellige" completion $shell >"$tmp/completion.$shell"
        check "$shell reads its completion" $shell -n "$tmp/completion.$shell"
    else
        skip "$shell reads its completion" "$shell is not installed"
    fi
done

# The man page names every command and option.
man_is_complete() {
    "$zellige" help --json | python3 -c '
import json, sys
page = open(sys.argv[1]).read().replace("\\-", "-")
table = json.load(sys.stdin)
words = [c["name"] for c in table["commands"]]
words += ["--" + o["name"] for c in table["commands"] + [table] for o in c["options"]]
missing = [w for w in words if w not in page]
sys.exit("not in the man page: " + ", ".join(missing) if missing else 0)' doc/man/zellige.1
}
check "the man page names everything" man_is_complete
if command -v man >/dev/null; then
    check "man reads the page without a warning" silent sh -c "LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings -E UTF-8 -l -Tutf8 -Z doc/man/zellige.1 2>&1 >/dev/null"
else
    skip "man reads the page" "man is not installed"
fi
finish
