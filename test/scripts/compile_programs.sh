#!/usr/bin/env bash
# compile_programs.sh BUILD - programs compile against include/ without a warning, in C and C++, with every compiler that is
# here, unoptimised and optimised: compilers look for uninitialised variables only while they optimise.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

strict=(-Wall -Wextra -Wpedantic -Werror -Iinclude)

cat >"$tmp/scopes.c" <<'END_OF_PROGRAM'
#include <stdio.h>
#include <zellige.h>

// What a scope assigns has a value after it.
static double sum_of(zl_array x) {
    double sum;
    ZL_SCOPE { sum = zl_item(zl_sum(x)); }
    return sum;
}

static zl_array squared(zl_array x) {
    zl_array y;
    ZL_SCOPE { y = zl_retain(zl_square(x)); }
    return y;
}

static bool is_evaluated(zl_array x) {
    bool done;
    ZL_SCOPE {
        zl_array y = zl_add(x, zl_scalar(1));
        ZL_SCOPE { done = zl_eval(zl_multiply(y, y)); }
    }
    return done;
}

int main(void) {
    const float three[] = {3};
    zl_array w = zl_retain(zl_from_f32(three, ZL_SCALAR)), gradient, y;
    double loss;
    for (int step = 0; step < 2; step++)
        ZL_SCOPE {
            zl_array value = zl_square(w);
            zl_grad(value, 1, &w, &gradient);
            loss = zl_item(value);
            zl_assign(&w, zl_subtract(w, zl_multiply(zl_scalar(0.25), gradient)));
        }
    y = squared(w);
    printf("%g %g %g %d\n", loss, sum_of(w), zl_item(y), is_evaluated(w));
    zl_release(w);
    zl_release(y);
    return zl_error() != NULL;
}
END_OF_PROGRAM
cp "$tmp/scopes.c" "$tmp/scopes.cpp"

# The programs of README.md: C blocks that have a main.
python3 - "$tmp" README.md <<'END_OF_PROGRAM'
import pathlib, re, sys
for page in sys.argv[2:]:
    blocks = re.findall(r"^```c\n(.*?)^```", pathlib.Path(page).read_text(), re.M | re.S)
    for index, block in enumerate(block for block in blocks if "int main" in block):
        pathlib.Path(sys.argv[1], f"{pathlib.Path(page).stem}_{index}.c").write_text(block)
END_OF_PROGRAM

compiles() { # COMPILER STANDARD FILE...: at every level, each file to an object
    local level file
    for file in "${@:3}"; do
        for level in -O0 -O1 -O2 -O3; do
            "$1" "-std=$2" "${strict[@]}" -D_GNU_SOURCE "$level" -c "$file" -o "$tmp/object.o" || return
        done
    done
}

here() { # COMPILER...: those that are installed
    local compiler
    for compiler; do
        if command -v "$compiler" >/dev/null; then echo "$compiler"; fi
    done
}
c_compilers=$(here gcc clang) cpp_compilers=$(here g++ clang++)
[ "$c_compilers" ] || skip "programs in C" "neither gcc nor clang is here"
[ "$cpp_compilers" ] || skip "programs in C++" "neither g++ nor clang++ is here"

for compiler in $c_compilers; do
    for standard in c11 gnu17; do
        check "$compiler, $standard: programs with scopes" compiles "$compiler" $standard "$tmp"/*.c
        check "$compiler, $standard: examples" compiles "$compiler" $standard example/*.c
    done
done
for compiler in $cpp_compilers; do
    check "$compiler, c++17: programs with scopes" compiles "$compiler" c++17 "$tmp/scopes.cpp"
done
for file in scopes.c scopes.cpp; do
    compiler=$( ([ $file = scopes.c ] && here cc || here c++) | head -n 1)
    [ "$compiler" ] || continue
    runs() { "$compiler" "${strict[@]}" -O2 "$tmp/$file" -o "$tmp/scopes" -L"$build" -lzellige -Wl,-rpath,"$build" && "$tmp/scopes"; }
    check "$file runs" says '^2.25 0.75 0.5625 1$' runs
done

finish
