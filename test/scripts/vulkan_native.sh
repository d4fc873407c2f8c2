#!/usr/bin/env bash
# vulkan_native.sh BUILD - the Python module on Vulkan, by lavapipe: what stopped other ports of MLX, by name, without any fallback.
. "$(dirname "$0")/lib.sh"

open_vulkan
export ZL_DEVICE=vulkan

# To Python, a chip that is the host's CPU is no GPU.
if python=$(tool/python.sh "$build" numpy 2>"$tmp/why"); then
    for told in gpu gpu,discrete,late; do
        add env PYTHONPATH="$build/python" VK_DRIVER_FILES="$build/fake/vulkan.json" FAKE_VULKAN=$told "$python" test/python/run.py test_native.py
    done
else
    skip "test_native.py" "$(tail -n 1 "$tmp/why")"
fi

finish
