#!/usr/bin/env bash
# install_and_use.sh BUILD - installs into an empty prefix, compiles C and C++ programs against it by pkg-config
# and by CMake's find_package, moves the prefix, and uninstalls without leaving a file.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

prefix=$tmp/prefix

cat >"$tmp/use.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <zellige.h>
int main(void) {
    zl_array y = zl_add(zl_from_f32((const float[]){1, 2}, ZL_SHAPE(2)), zl_scalar(1));
    if (!zl_eval(y))
        printf("%s\n", zl_error());
    return strcmp(zl_version(), VERSION) != 0 || zl_data_f32(y)[1] != 3;
}
END
cat >"$tmp/talk.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <zellige_model.h>
int main(int argc, char **argv) {
    char error[512] = "";
    zl_model model = zl_model_open(argv[argc > 1], error, sizeof error);
    zl_sequence sequence = model ? zl_sequence_start(model, (int32_t[]){3, 1, 4}, 3, NULL, error, sizeof error) : NULL;
    zl_token token;
    for (int i = 0; sequence && i < 5 && zl_sequence_next(sequence, &token, error, sizeof error); i++)
        printf("%d ", token.id);
    puts(error);
    zl_sequence_close(sequence);
    zl_model_close(model);
    return *error != 0;
}
END
sed -e 's/(const float\[\]){1, 2}/data/; s/int main(void) {/&\n    const float data[] = {1, 2};/' \
    "$tmp/use.c" >"$tmp/use.cpp"

version=$(sed -n 's/^#define ZL_VERSION_[A-Z]* *//p' include/zellige.h | paste -sd.)
installs() { cmake --install "$build" --prefix "$prefix"; }
pkg() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"; }
runs() { LD_LIBRARY_PATH=$prefix/lib "$@"; }

by_pkg_config() { # COMPILER SOURCE
    # shellcheck disable=SC2046
    $1 -Wall -Werror -DVERSION="\"$version\"" "$2" -o "$tmp/use" $(pkg --cflags --libs zellige) && runs "$tmp/use"
}

by_pkg_config_static() {
    # shellcheck disable=SC2046
    cc -DVERSION="\"$version\"" "$tmp/use.c" -o "$tmp/use" $(pkg --cflags zellige) "$prefix/lib/libzellige.a" \
        $(pkg --static --libs zellige | tr ' ' '\n' | grep -v zellige) && "$tmp/use"
}

with_models() { # COMPILER
    # shellcheck disable=SC2046
    $1 -Wall -Werror "$tmp/talk.c" -o "$tmp/talk" $(pkg --cflags --libs zellige_model) && runs "$tmp/talk" test/model/gguf/qwen3.gguf
}

trains() {
    # shellcheck disable=SC2046
    cc -Wall -Werror example/train_block.c -o "$tmp/train" $(pkg --cflags --libs zellige_model) && runs "$tmp/train"
}

by_cmake() { # EXTENSION TARGET
    rm -rf "$tmp/project" && mkdir "$tmp/project" && cp "$tmp/use.$1" "$tmp/project/" || return
    cat >"$tmp/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(use)
find_package(zellige ${version%.*} REQUIRED)
add_executable(use use.$1)
target_compile_definitions(use PRIVATE VERSION="$version")
target_link_libraries(use PRIVATE $2)
END
    cmake -S "$tmp/project" -B "$tmp/project/build" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$tmp/project/build" && runs "$tmp/project/build/use"
}

refuses_another_version() {
    sed -i 's/find_package(zellige [0-9.]*/find_package(zellige 99.0/' "$tmp/project/CMakeLists.txt"
    ! cmake -S "$tmp/project" -B "$tmp/project/build99" -DCMAKE_PREFIX_PATH="$prefix"
}

no_file_left() {
    cmake -DMANIFEST="$build/install_manifest.txt" -P cmake/uninstall.cmake || return
    local left
    left=$(find "$prefix" ! -type d -o -name 'zellige*')
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}

check "install" installs
check "soname is of the major version" says "SONAME.*libzellige\.so\.${version%%.*}$" objdump -p "$prefix/lib/libzellige.so"
check "the installed program runs" says "^zellige $version" "$prefix/bin/zellige" version
check "man page is installed" test -f "$prefix/share/man/man1/zellige.1"
if command -v pkg-config >/dev/null; then
    check "C by pkg-config" by_pkg_config cc "$tmp/use.c"
    check "a program with a language model" says '^([0-9]+ ){5}$' with_models cc
    check "a program that trains" says "^step 100" trains
    check "C by pkg-config, static library" by_pkg_config_static
    check "clean C99 and C17 headers" by_pkg_config "cc -std=c17 -pedantic" "$tmp/use.c"
    if command -v c++ >/dev/null; then
        check "C++ by pkg-config" by_pkg_config c++ "$tmp/use.cpp"
    else
        skip "C++ by pkg-config" "no C++ compiler"
    fi
else
    skip "programs by pkg-config" "pkg-config is not installed"
fi
check "C by CMake" by_cmake c zellige::zellige
check "C by CMake, static library" by_cmake c zellige::zellige_static
if command -v c++ >/dev/null; then
    check "C++ by CMake" by_cmake cpp zellige::zellige
fi
check "find_package refuses another version" refuses_another_version

# doc/quickstart-c.md, as a reader would: its files in an empty folder, then its commands in their order.
follow_quickstart() {
    mkdir -p "$tmp/quickstart" && python3 - doc/quickstart-c.md "$tmp/quickstart" <<'END_OF_PROGRAM' || return
import pathlib, re, sys
folder, commands = pathlib.Path(sys.argv[2]), []
for kind, body in re.findall(r"^```(\w+)\n(.*?)^```", pathlib.Path(sys.argv[1]).read_text(), re.M | re.S):
    if kind == "c":
        (folder / re.match(r"// (\S+\.c)\n", body)[1]).write_text(body)
    elif kind == "cmake":
        (folder / "CMakeLists.txt").write_text(body)
    elif kind == "sh" and "make install" not in body:
        commands.append(body.replace("export PREFIX=$HOME/zellige", "export PREFIX=$INSTALLED"))
(folder / "commands.sh").write_text("set -ex\n" + "".join(commands))
END_OF_PROGRAM
    (cd "$tmp/quickstart" && INSTALLED=$prefix bash commands.sh)
}
if command -v pkg-config >/dev/null; then
    check "the quickstart" follow_quickstart
    check "trains" says '^loss 0.0000, weights 1.00 -2.00 3.00, bias 0.50$' runs sh -c "cd '$tmp/quickstart' && build/train"
    check "and says errors" says '^zl_matmul: inner sizes differ' runs sh -c "cd '$tmp/quickstart' && ./errors"
    rm "$tmp/quickstart/data.safetensors"
    check "also of a file that is not there" exits 1 runs sh -c "cd '$tmp/quickstart' && build/train"
else
    skip "the quickstart" "pkg-config is not installed"
fi
moved=$tmp/moved
mv "$prefix" "$moved"
prefix=$moved
check "a moved prefix still works" by_cmake c zellige::zellige
check "the moved program runs" says "^zellige $version" "$prefix/bin/zellige" version
prefix=$tmp/prefix
mv "$moved" "$prefix"
check "uninstall leaves nothing" no_file_left
export DESTDIR=$tmp/stage
prefix=/usr/local
check "install with DESTDIR" installs
check "DESTDIR holds the library" test -e "$DESTDIR/usr/local/lib/libzellige.so"
prefix=$DESTDIR$prefix
check "uninstall with DESTDIR leaves nothing" no_file_left
finish
