# Builds for x86_64 with Debian's cross compiler (package gcc-x86-64-linux-gnu):
#   cmake -S . -B build-x86_64 --toolchain cmake/toolchain-x86_64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
