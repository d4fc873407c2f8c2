#!/usr/bin/env bash
# test.sh quick|test|matrix|emulated|long - runs the tests and sums up. Every part ends with a line "N passed, N failed, N
# skipped"; so does the whole. A part that does not end so has failed.
#
#   quick     what is built already, seeded samples, at most 15 seconds
#   test      one build, all tests, and test/scripts/; as many run side by side as there are CPUs
#   matrix    the tests in other builds: by clang with ASan and UBSan, with TSan, and beside these "emulated"; and what `test` leaves to it
#   emulated  the tests built for the other architecture, which an emulator runs as several CPU models
#   long      test and matrix, with the largest sizes and a new seed, and the tests in a release build by clang
#
# `test` is what a newcomer runs, and is to take at most 12 minutes on two cores; where it takes samples, `matrix` runs the whole:
# - tests of kernels that compilers make at run time (PoCL, XLA, the system's), tests of the CPU's kernels and of CUDA's host side,
#   and fuzzers: in the same build;
# - scripts that build the tree again or run tests on another device.
# Kernels of ops in the interpreter, which take minutes, are sampled in both, with other seeds, and whole in `long`.
# What took most processor time is told at the end: other programs do not lengthen it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

mode=${1:-test}
# Where there is a ccache, the builds of a run share what they compile: the wheel has the objects of build/.
if command -v ccache >/dev/null; then
    : "${CMAKE_C_COMPILER_LAUNCHER=env;CCACHE_DIR=$PWD/build/ccache;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;CCACHE_DEPEND=1;ccache}"
    export CMAKE_C_COMPILER_LAUNCHER
fi
with_generator=-DZL_GEN=$PWD/build/zellige-gen
with_rows=-DZL_ROWS_OF=$PWD/build # which no sanitizer looks at
jobs=(--jobs "$(nproc)")
sampled=(device/test_{bm1690,cpu,cuda,delta_wy,desk,group_tile,hip,kernel,opencl,pjrt,tile_sizes,vulkan} fuzz/) # words of tests
interpreted=kernels_of_ops_in_the_interpreter
of_matrix=(cpu_models.sh vulkan_native.sh vulkan_ops.sh follow_docs.py) # scripts
passed=0 failed=0 skipped=0
failures=()
tmp=$(mktemp -d)
log=$tmp/log
emulated= # the process of the emulated tests, which leads a group of its own
trap '[ -z "$emulated" ] || kill -- "-$emulated"; rm -rf "$tmp"' EXIT

processor() { # FILE: seconds of it that children took, of what a shell's "times" wrote there
    awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * $1 + $2 + 60 * $3 + $4 }' "$1"
}
export -f processor

count() { # NAME STATUS SECONDS PROCESSOR: adds the last line of $log to the sum
    local line count
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    read -r -a count <<<"${line:-0 passed, 0 failed, 0 skipped}"
    if [ "$2" != 0 ] && [ "${count[2]}" = 0 ]; then
        count[2]=1 # it broke without counting that
    elif [ -z "$line" ]; then
        count[0]=1
    fi
    passed=$((passed + count[0])) failed=$((failed + count[2])) skipped=$((skipped + count[4]))
    [ "${count[2]}" = 0 ] || failures+=("$1")
    printf -- '-- %s: %s s, %s s of processor time\n' "$1" "$3" "$4"
    printf '%6d %6d  %s\n' "$4" "$3" "$1" >>"$tmp/table"
}

part() { # NAME COMMAND...: runs it, adds its last line to the sum
    local name=$1 start=$SECONDS status
    shift
    printf '\n== %s\n' "$name"
    { "$@" 2>&1; status=$?; times >"$tmp/times"; exit $status; } | tee "$log" # a shell of its own, whose children are these alone
    status=${PIPESTATUS[0]}
    count "$name" "$status" $((SECONDS - start)) "$(processor "$tmp/times")"
    return "$status"
}

build() { # FOLDER TARGET OPTION...: configures and builds quietly; the output is shown when it fails
    local folder=$1 target=$2 text generator=()
    shift 2
    command -v ninja >/dev/null && generator=(-G Ninja)
    if ! text=$(cmake -S . -B "$folder" "${generator[@]}" "$@" 2>&1 &&
        cmake --build "$folder" --parallel "$(nproc)" --target "$target" 2>&1); then
        printf '%s\n' "$text" | tail -n 200
        return 1
    fi
}

# What was installed after `make demo` configured it is found too.
gcc_build() {
    [ ! -e build/CMakeCache.txt ] || cmake build >/dev/null || return
    make --no-print-directory build
}

# run_script SCRIPT SECONDS FOLDER: keeps what it says, its status and how long it took. One that hangs is named, and the rest
# still runs.
run_script() {
    local start=$SECONDS log status=0
    log=$3/$(basename "$1")
    timeout -k 10 "$2" "$1" build >"$log" 2>&1 || status=$?
    times >"$log.times"
    echo "$status $((SECONDS - start)) $(processor "$log.times")" >"$log.status"
}
export -f run_script

# Those that judge speeds, and mind what else runs, come one by one after the others. The longest start first.
scripts() { # SECONDS that each may take
    local script folder=$tmp/scripts beside=() alone=() status seconds processor
    mkdir "$folder"
    for script in test/scripts/{python_module.sh,pjrt_ops.sh,bench_auto.sh} test/scripts/*.sh test/scripts/*.py; do
        case $script in
        test/scripts/bench_check.sh | test/scripts/bench_peaks.sh) alone+=("$script") ;;
        *) [[ " ${of_matrix[*]} " == *" ${script##*/} "* ]] || [ ! -x "$script" ] || [[ " ${beside[*]} " == *" $script "* ]] || beside+=("$script") ;; # lib.sh is only read by others
        esac
    done
    printf '\n== %s scripts side by side, then %s one by one\n' ${#beside[@]} ${#alone[@]}
    printf '%s\n' "${beside[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run_script "$@"' _ {} "$1" "$folder"
    for script in "${alone[@]}"; do
        (run_script "$script" "$1" "$folder")
    done
    for script in "${beside[@]}" "${alone[@]}"; do
        log=$folder/$(basename "$script")
        printf '\n== %s\n' "$script"
        cat "$log"
        read -r status seconds processor <"$log.status"
        count "$script" "$status" "$seconds" "$processor"
    done
    log=$tmp/log
}

# The kernel's widest address randomisation is more than TSan's shadow memory allows for.
fixed_addresses() { setarch "$(uname -m)" -R true 2>/dev/null && echo setarch "$(uname -m)" -R; }

other_architecture() { # BUILD-OPTION...
    local other=x86_64 emulator compiler
    [ "$(uname -m)" != x86_64 ] || other=aarch64
    emulator=(env "PATH=$tmp/$other:$PATH" "qemu-$other" -cpu max -L "/usr/$other-linux-gnu")
    if ! compiler=$(command -v "$other-linux-gnu-gcc") || ! command -v "qemu-$other" >/dev/null; then
        skipped=$((skipped + 1))
        echo "skipped $other: no gcc-${other/_/-}-linux-gnu, or no qemu-user"
        return
    fi
    mkdir -p "$tmp/$other" && ln -s "$compiler" "$tmp/$other/cc" # what the library finds to compile kernels with
    part "$other: build" build "build-$other" zellige_test "$@" \
        --toolchain "cmake/toolchain-$other-linux-gnu.cmake" &&
        part "$other: tests" "${emulator[@]}" "build-$other/test" "${jobs[@]}" --brief \
            --sample device/test_bm1690 --sample device/test_cuda --except after_fork && # which qemu cannot
        part "$other: CPU models" test/scripts/cpu_models.sh "build-$other"
}

# clang's UBSan also finds arithmetic on NULL and floats that fit no integer; without its libraries it is gcc's.
sanitizing_compiler() {
    if echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c - -o "$tmp/sanitized" 2>/dev/null; then
        command -v clang
    else
        command -v cc
    fi
}

tests() { # SECONDS that a script may take, TEST-OPTION...
    local limit=$1
    shift
    part "build" gcc_build && part "tests" build/test "${jobs[@]}" --times 20 "$@"
    scripts "$limit"
}

clang_build() { # TEST-OPTION...
    if command -v clang >/dev/null; then
        part "clang: build" build build-clang all -DCMAKE_C_COMPILER=clang &&
            part "clang: tests" build-clang/test "${jobs[@]}" "$@"
    else
        skipped=$((skipped + 1))
        echo "skipped the clang build: clang is not installed"
    fi
}

matrix() { # TEST-OPTION...
    local without_aslr status=0 start=$SECONDS script
    read -r -a without_aslr <<<"$(fixed_addresses)"
    [ -x build/test ] || part "build" gcc_build || return # what writes kernels serves all builds
    # The emulated tests take the longest, so they run beside all others.
    # shellcheck disable=SC2016 # for that shell
    setsid bash -c 'tool/test.sh emulated >"$1" 2>&1; status=$?; times >"$1.times"; exit $status' _ "$tmp/emulated" &
    emulated=$!
    part "sampled so far" build/test "${jobs[@]}" --times 20 --except $interpreted "$@" "${sampled[@]}"
    part "ASan, UBSan: build" build build-sanitize zellige_test -DZL_SANITIZE=address,undefined "$with_generator" "$with_rows" \
        "-DCMAKE_C_COMPILER=$(sanitizing_compiler)" &&
        part "ASan, UBSan: tests" env ASAN_OPTIONS=use_sigaltstack=0 build-sanitize/test "${jobs[@]}" --quick --timeout 1800 --times 20 \
            --sample device/test_group_tile --except $interpreted && # LLVM, in PoCL, replaces that stack
        part "ASan, UBSan: kernels in the interpreter" build-sanitize/test --quick --timeout 1800 --seed 2 --sample $interpreted $interpreted
    part "TSan: build" build build-tsan zellige_test -DZL_SANITIZE=thread "$with_generator" "$with_rows" &&
        part "TSan: tests" env TSAN_OPTIONS=halt_on_error=1 "${without_aslr[@]}" \
            build-tsan/test "${jobs[@]}" --quick thread stream eval pool device/test_vulkan
    for script in "${of_matrix[@]}" pjrt_ops.sh; do
        part "test/scripts/$script" "test/scripts/$script" build
    done
    wait "$emulated" || status=$?
    emulated=
    printf '\n== emulated, beside the others\n'
    tee "$log" <"$tmp/emulated"
    count "emulated" "$status" $((SECONDS - start)) "$(processor "$tmp/emulated.times")"
}

case $mode in
quick)
    part "layers" tool/layers.sh
    part "tests" build/test --quick
    ;;
test)
    export SAMPLE=${SAMPLE:-150:1} LEAST=${LEAST:-45} # of the programs of pjrt_ops.sh
    samples=()
    for word in "${sampled[@]}"; do samples+=(--sample "$word"); done
    tests 1500 "${samples[@]}"
    ;;
matrix) matrix ;;
emulated) other_architecture "$with_generator" ;;
long)
    export ZL_LONG=1
    seed=$(date +%s)
    tests 14400 --long --timeout 7200 --seed "$seed"
    clang_build --long --timeout 7200 --seed "$seed"
    matrix --long --timeout 7200 --seed "$seed"
    ;;
*)
    echo "usage: tool/test.sh quick|test|matrix|emulated|long" >&2
    exit 2
    ;;
esac

printf '\nprocessor time and seconds by the clock of each part\n'
sort -rn "$tmp/table"
echo
[ ${#failures[@]} = 0 ] || printf 'failed: %s\n' "${failures[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
