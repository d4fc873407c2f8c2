#!/usr/bin/env bash
# vulkan_native.sh BUILD - the Python module on Vulkan, by lavapipe: what stopped other ports of MLX, by name, without any fallback.
. "$(dirname "$0")/lib.sh"

open_vulkan
export ZL_DEVICE=vulkan

# To Python, a chip that is the host's CPU is no GPU.
if python=$(tool/python.sh "$build" numpy 2>"$tmp/why"); then
    native=(env PYTHONPATH="$build/python" VK_DRIVER_FILES="$build/fake/vulkan.json")
    add "${native[@]}" FAKE_VULKAN=gpu "$python" test/python/run.py test_native.py test_native_quantized.py
    add "${native[@]}" FAKE_VULKAN=gpu,discrete,late "$python" test/python/run.py test_native.py
else
    skip "test_native.py" "$(tail -n 1 "$tmp/why")"
fi

finish
