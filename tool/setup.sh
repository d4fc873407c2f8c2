#!/usr/bin/env bash
# setup.sh build|python|test|matrix|cloud - installs the Debian packages that are missing for it, and says which. Does nothing,
# without network or root, when all are there. doc/dependencies.md says what each is for. All need those of build
# too, test also those of python, and matrix those of test.
set -euo pipefail

what=${1:-build}

has_command() { PATH=$PATH:/sbin:/usr/sbin command -v "$1" >/dev/null; }
has_library() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep "^[[:space:]]*$1 " >/dev/null; }
has_header() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }
has_folder() { [ -d "$1" ]; }
has_python_headers() {
    has_command python3 && [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ]
}
has_python_venv() { has_command python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }
has_clang_sanitizers() { echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c - -o /dev/null 2>/dev/null; }
has_clang_program() { [ -x "$(clang -print-prog-name="$1" 2>/dev/null)" ]; } # that clang calls
has_opencl_device() { ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1; }
has_vulkan_device() { ls /usr/share/vulkan/icd.d/lvp_icd.*.json >/dev/null 2>&1; }
has_vulkan_layer() { ls /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json >/dev/null 2>&1; }
has_cmake() { # 3.25 or later
    has_command cmake && printf '3.25\n%s\n' "$(cmake --version | sed -n '1s/[^0-9]*//p')" | sort -CV
}

# The architecture that this machine is not, which the tests build for and run in an emulator.
other=x86_64 other_debian=amd64
[ "$(uname -m)" != x86_64 ] || other=aarch64 other_debian=arm64

# When | package | how to see that it, or something that serves as well, is there.
packages="
build | gcc                  | has_command gcc
build | libc6-dev            | has_header stdio.h
build | cmake                | has_cmake
build | ninja-build          | has_command ninja
build | libopenblas0-pthread | has_library libopenblas.so.0
build | zlib1g               | has_library libz.so.1
build | libutf8proc2         | has_library libutf8proc.so.2
build | libpcre2-8-0         | has_library libpcre2-8.so.0
test  | g++                  | has_command g++
test  | clang                | has_command clang
test  | libclang-rt-dev      | has_clang_sanitizers
test  | lld                  | has_clang_program lld
test  | clang-tools          | has_clang_program clang-offload-bundler
test  | pkg-config           | has_command pkg-config
python | python3             | has_command python3
python | python3-dev         | has_python_headers
python | python3-venv        | has_python_venv
test  | libblis4-pthread     | has_library libblis.so.4
test  | ocl-icd-libopencl1   | has_library libOpenCL.so.1
test  | pocl-opencl-icd      | has_opencl_device
test  | libvulkan1           | has_library libvulkan.so.1
test  | mesa-vulkan-drivers  | has_vulkan_device
test  | vulkan-validationlayers | has_vulkan_layer
test  | spirv-tools          | has_command spirv-val
test  | rsync                | has_command rsync
test  | ccache               | has_command ccache
test  | openmpi-bin          | has_command mpirun
test  | iproute2             | has_command ip
test  | dataset-fashion-mnist | has_folder /usr/share/datasets/fashion-mnist
matrix | qemu-user           | has_command qemu-$other
matrix | gcc-${other/_/-}-linux-gnu | has_command $other-linux-gnu-gcc
matrix | libc6-dev-$other_debian-cross | has_folder /usr/$other-linux-gnu/include
cloud | rsync                | has_command rsync
cloud | python3-venv         | has_python_venv
cloud | slurmctld            | has_command slurmctld
cloud | slurmd               | has_command slurmd
cloud | slurm-client         | has_command sinfo
cloud | munge                | has_command munged
cloud | openssh-server       | has_command sshd
cloud | openssh-client       | has_command ssh
cloud | socat                | has_command socat
cloud | netcat-openbsd       | has_command nc
"

missing=()
while IFS='|' read -r when package probe; do
    when=${when// /} package=${package// /}
    [ -n "$package" ] || continue
    case $when in
    build | "$what") ;;
    python) [ "$what" = test ] || [ "$what" = matrix ] || continue ;;
    test) [ "$what" = matrix ] || continue ;;
    *) continue ;;
    esac
    eval "$probe" || missing+=("$package")
done <<<"$packages"

if [ ${#missing[@]} = 0 ]; then
    echo "setup: everything needed is installed"
    exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
    if ! has_command sudo; then
        echo "setup: missing: ${missing[*]}" >&2
        echo "setup: run as root, or with sudo installed: apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi
if ! has_command apt-get; then
    echo "setup: this is no Debian; install what these packages hold by your system's means: ${missing[*]}" >&2
    exit 1
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }

echo "setup: installing ${missing[*]}"
apt update >/dev/null || echo "setup: apt-get update failed; trying with the package lists that are here" >&2
if ! apt install --no-install-recommends "${missing[@]}"; then
    echo "setup: could not install ${missing[*]}" >&2
    exit 1
fi
