#!/usr/bin/env bash
# cpu_models.sh BUILD - on CPUs without an instruction the matrix kernels that use it are not chosen, on CPUs with it
# they are: qemu-user stands for both. What no model here has (AVX-512 and what is built on it) is tested where the CPU is.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

case $(od -An -t u2 -j 18 -N 2 "$build/test" | tr -d ' ') in # machine of the ELF header
62) arch=x86_64 ;;
183) arch=aarch64 ;;
*) arch=unknown ;;
esac
emulator=("qemu-$arch")
[ "$arch" = "$(uname -m)" ] || emulator+=(-L "/usr/$arch-linux-gnu")

model() { # CPU KERNELS [GROUP...]: the kernels that are chosen for f32, f64, f16, bf16, i8; groups that are tested there
    local cpu=$1 kernels=$2 group tests=(test_cpu_gemm:chosen_kernels test_cpu_gemm:every_dtype)
    shift 2
    for group; do tests+=("test_cpu_gemm:kernels_of_$group"); done
    check "$cpu: $kernels" says "^${#tests[@]} passed, 0 failed, 0 skipped$" \
        env ZL_TEST_KERNELS="$kernels" "${emulator[@]}" -cpu "$cpu" "$build/test" --quick "${tests[@]}"
}

if ! command -v "${emulator[0]}" >/dev/null; then
    skip "CPU models of $arch" "no ${emulator[0]}: install qemu-user"
elif [ $arch = aarch64 ]; then
    plain="f32 fmla, f64 fmla, f32 fmla, f32 fmla"
    model cortex-a53 "$plain, i32" every
    model neoverse-n1 "$plain, i8 sdot" neon
    model a64fx "f32 sve 512, f64 sve 512, f32 sve 512, f32 sve 512, i32" sve
    model max,sve=off "f32 fmla, f64 fmla, f16 fmlal, bf16 bfmmla, i8 smmla" neon
    model max,sve-default-vector-length=16 "f32 fmla, f64 fmla, f16 fmlal, bf16 bfmmla, i8 smmla"
    model max,sve-default-vector-length=32 "f32 sve 256, f64 sve 256, f16 fmlal, bf16 sve 256, i8 sve 256" sve
    model max,sve-default-vector-length=64 "f32 sve 512, f64 sve 512, f16 fmlal, bf16 sve 512, i8 sve 512" sve
else
    model Nehalem "f32, f64, f32, f32, i32" every
    model Haswell "f32 avx2, f64 avx2, f32 avx2, f32 avx2, i16 avx2" avx2
    model Icelake-Server "f32 avx2, f64 avx2, f32 avx2, f32 avx2, i16 avx2" # of which qemu leaves out AVX-512
fi
finish
