#!/usr/bin/env bash
# vulkan_ops.sh BUILD - the tests of ops on Vulkan, by lavapipe, with few cases of what takes long there. Only what devices with kernels are
# known to lack falls back to the CPU.
. "$(dirname "$0")/lib.sh"

jobs=(--jobs "$(nproc)")
open_vulkan
export ZL_DEVICE=vulkan

# Factors and eigenvalues of matrices, Fourier transforms, kernels from source, products of complex numbers.
lacks=(test_linalg: test_fft: test_stft: test_source_kernel: test_transform_table: kernels_in_cuda complex_products matmul_dtypes
    conv_of_complex)
except=()
for word in "${lacks[@]}"; do
    except+=(--except "$word")
done
add env ZL_NO_FALLBACK=1 "$build/test" --brief "${jobs[@]}" "${except[@]}" op/

# Their tests pass too, and nothing else in them falls back.
add env ZL_LOG=info "$build/test" --brief "${jobs[@]}" --except large_matrices "${lacks[@]}"
fell_back() { sed -n 's/^.*info: \([a-z_]* of [a-z0-9]*\) falls back to the CPU.*/\1/p' "$tmp/log"; }
fell_back | sort | uniq -c
# shellcheck disable=SC2317 # check calls it
others() { fell_back | grep -vEf tool/may_fall_back.txt; }
check "nothing else falls back" exits 1 others

# Subgroups of 4, 8 and 16 threads, whichever lavapipe would have here.
for width in 128 256 512; do
    add env LP_NATIVE_VECTOR_WIDTH=$width ZL_NO_FALLBACK=1 "$build/test" --brief "${jobs[@]}" op/test_reduce_ops:positions op/test_reduce_ops:rules_l \
        op/test_scan:running_sums op/test_fast: op/test_take:
done

# Chips that have less. What computes in float64 falls back where they have none.
for less in i64 i8,i16,f16,storage8,storage16 subgroups f64; do
    native=1
    [ $less != f64 ] || native=0
    add env FAKE_VULKAN=$less VK_DRIVER_FILES="$build/fake/vulkan.json" ZL_NO_FALLBACK=$native "$build/test" --brief "${jobs[@]}" \
        op/test_take: op/test_create: op/test_reduce_ops: op/test_logic: op/test_random:
done

# Every message of the validation layer, which looks at the order of commands too, is a failure.
layer=/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
if [ -r "$layer" ]; then
    add env VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation \
        VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT \
        "$build/test" --brief "${jobs[@]}" op/test_take: op/test_slices: op/test_reduce_ops: op/test_sort: op/test_gather_mm: op/test_random:
    check "the validation layer has nothing to say" exits 1 grep -m 5 Validation "$tmp/log"
else
    skip "validation" "Debian's package vulkan-validationlayers is not installed"
fi
finish
