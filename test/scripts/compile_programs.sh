#!/usr/bin/env bash
# compile_programs.sh BUILD - programs compile against include/ and model/ without a warning, in C and C++, with every compiler that is
# here, unoptimised and optimised: compilers look for uninitialised variables only while they optimise. Numbers in the place
# of arrays do not compile.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

strict=(-Wall -Wextra -Wpedantic -Werror -Iinclude -Imodel)

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

# The programs of README.md and of the quickstart: C blocks that have a main.
python3 - "$tmp" README.md doc/quickstart-c.md <<'END_OF_PROGRAM'
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

# Numbers ---------------------------------------------------------------------------------------------------

one_call() { # COMPILER LANGUAGE STANDARD CALL: as the body of a function with arrays x, y and a list dim of n sizes
    printf '#include <zellige.h>\nzl_array f(zl_array x, zl_array y, const int64_t *dim, int n);\n%s { (void)x, (void)y, (void)dim, (void)n; return %s; }\n' \
        'zl_array f(zl_array x, zl_array y, const int64_t *dim, int n)' "$4" |
        "$1" -x "$2" "-std=$3" "${strict[@]}" -c - -o "$tmp/object.o"
}
refuses() { # without -Werror: an error, not a warning
    local strict=(-Iinclude)
    ! one_call "$@"
}

good=('zl_add(x, y)' 'zl_add(x, zl_scalar(0))' 'zl_add(zl_add(x, y), zl_multiply(x, zl_add(y, x)))'
    'zl_random_normal(ZL_SHAPE(2, 3), ZL_FLOAT32, NULL, NULL, NULL)'
    'zl_random_normal(zl_shape_of(x), ZL_FLOAT32, zl_scalar(0), y, NULL)'
    'zl_clip(x, NULL, zl_scalar(6))' 'zl_pad(x, ZL_SHAPE(1), ZL_SHAPE(1), zl_scalar(0))'
    'zl_sum_axes(x, ZL_AXES(0, 1), false)' 'zl_softmax(x, -1, false)' 'zl_where(n ? x : y, x, y)')
only_c=('zl_full((zl_shape){dim, n}, x, ZL_FLOAT32)' 'zl_scatter_add(x, (zl_array[]){x, y}, 2, y, ZL_AXES(0, 1))' '(zl_add)(x, y)'
    '(dim ? zl_add : zl_subtract)(x, y)')
only_cpp=('zl_full(zl_shape{dim, n}, x, ZL_FLOAT32)' 'zl_clip(x, nullptr, y)' '(dim ? zl_exp : zl_log)(x)')
bad=('zl_add(x, 0)' 'zl_add(x, 1)' 'zl_add(0, x)' 'zl_add(1.5, x)' 'zl_add(x, false)' 'zl_where(x, y, 0)' 'zl_maximum(x, 0)'
    'zl_random_normal(ZL_SHAPE(2, 3), ZL_FLOAT32, 0, 1, NULL)' 'zl_random_normal(ZL_SHAPE(2), ZL_FLOAT32, NULL, NULL, 0)'
    'zl_random_uniform(0, 1, ZL_SHAPE(2), ZL_FLOAT32, NULL)' 'zl_clip(x, 0, zl_scalar(6))' 'zl_full(ZL_SHAPE(3), 0, ZL_FLOAT32)'
    'zl_full_like(x, 0, ZL_FLOAT32)' 'zl_pad(x, ZL_SHAPE(1), ZL_SHAPE(1), 0)' 'zl_slice_update(x, 0, ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(1))')

for compiler in $c_compilers; do
    for call in "${good[@]}" "${only_c[@]}"; do check "$compiler takes $call" one_call "$compiler" c c11 "$call"; done
    for call in "${bad[@]}"; do check "$compiler refuses $call" refuses "$compiler" c gnu17 "$call"; done
    check "$compiler refuses zl_exp(0)" refuses "$compiler" c c11 'zl_exp(0)'
done
for compiler in $cpp_compilers; do
    for call in "${good[@]}" "${only_cpp[@]}"; do check "$compiler takes $call" one_call "$compiler" c++ c++17 "$call"; done
    for call in "${bad[@]}"; do check "$compiler refuses $call" refuses "$compiler" c++ c++11 "$call"; done
done
finish
