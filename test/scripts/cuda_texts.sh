#!/usr/bin/env bash
# cuda_texts.sh BUILD - texts for CUDA are compiled for sm_80, sm_90a and sm_100 by NVRTC of PyPI. Where a toolkit is found, the
# tests of devices have compiled a tenth of them by it; then this is a sample by the package, found as users have it.
. "$(dirname "$0")/lib.sh"

if ! python=$(tool/python.sh "$build" "nvidia-cuda-nvrtc>=13,<14" 2>"$tmp/why"); then
    echo "skipped: NVRTC of PyPI: $(tail -n 1 "$tmp/why")"
    skipped=1
    finish
fi
home=$("$python" -c 'import glob, sysconfig; print(*glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib/libnvrtc.so.*"))')
home=${home%% *}
words=(compile_for_cuda compiles_for_cuda device/test_cuda:a_text)
sample=()
if [ -x /usr/local/cuda/bin/nvcc ]; then
    sample=(--quick)
else
    words+=(render/test_group_text:cuda_texts) # which a sample has none of
fi
export ZL_CUDA=${home%/lib/*}

check "NVRTC of a package" says "^[1-9][0-9]* passed, 0 failed, 0 skipped" "$build/test" "${sample[@]}" "${words[@]}"
# In PATH it is found without a setting, unless the machine has another.
unset ZL_CUDA
check "NVRTC in the packages of a Python in PATH" says "^1 passed, 0 failed, 0 skipped" \
    env "PATH=$(dirname "$python"):$PATH" "$build/test" device/test_cuda:a_text
finish
