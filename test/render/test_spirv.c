// test_spirv.c - kernels as SPIR-V: what spirv-val says of them, where arguments lie, and what their disassembly says.

#include "device/spirv_files.h"
#include "test.h"

#include "kernel/kernel.h"
#include "render/render.h"
#include "render/spirv.h"

#include <stdio.h>
#include <string.h>

static struct tile_kernel *parse(const char *text) {
    struct tile_kernel *k = tile_parse(text, "sample");
    if (!CHECK(k))
        test_note("%s", zl_error() ? zl_error() : "?");
    return k;
}

// Statements, ops and dtypes; each kernel for itself.
static const char *const samples[] = {
    // Every kind of op, in each dtype that has it.
    "kernel floats(a: f32[n], b: f32[n], w: f64[n]) -> (y: f32[n], z: f64[n]) {\n"
    "  map i in n {\n"
    "    y[i] = select(a[i] < b[i], sqrt(abs(a[i])) / b[i], fma(a[i], b[i], floor(-a[i])))\n"
    "    z[i] = fma(w[i], maximum(w[i], abs(w[i])), sqrt(w[i])) + f64(a[i])\n"
    "  }\n}\n",
    "kernel integers(a: i8[n], b: u16[n], c: i64[n], d: u64[n]) -> (y: i8[n], z: i64[n], w: u16[n], v: "
    "u64[n]) {\n"
    "  map i in n {\n"
    "    y[i] = a[i] * a[i] - abs(a[i]) + i8(b[i])\n"
    "    z[i] = c[i] // i64(a[i]) + (c[i] >> i64(b[i])) % c[i]\n"
    "    w[i] = (b[i] << b[i]) ^ b[i] | 3\n"
    "    v[i] = d[i] // u64(b[i]) * minimum(d[i], u64(c[i]))\n"
    "  }\n}\n",
    "kernel halves(a: f16[n], b: bf16[n]) -> (y: f16[n], z: bf16[n], t: bool[n]) {\n"
    "  map i in n {\n"
    "    y[i] = a[i] * f16(b[i]) + exp(a[i])\n"
    "    z[i] = bf16(a[i]) - abs(b[i])\n"
    "    t[i] = (a[i] != a[i]) | (b[i] > 0.0)\n"
    "  }\n}\n",
    "kernel complex(a: c64[n]) -> (y: c64[n]) {\n  map i in n { y[i] = exp(a[i]) * a[i] }\n}\n",
};

TEST(spirv_of_samples_is_valid) {
    if (spirv_files_lack())
        SKIP(spirv_files_lack());
    test_setenv("ZL_TEST_SPIRV", test_folder());
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct tile_kernel *k = parse(samples[i]);
        if (k && !CHECK(spirv_files_keep(k)))
            test_note("%s: %s", k->name, zl_error() ? zl_error() : "?");
        zl_clear_error();
        tile_free(k);
    }
    test_setenv("ZL_TEST_SPIRV", NULL);
    spirv_files_check(test_folder());
}

TEST(spirv_of_kernels_is_valid) {
    if (spirv_files_lack())
        SKIP(spirv_files_lack());
    test_setenv("ZL_TEST_SPIRV", test_folder());
    for (const struct kernel_text *t = kernel_texts; t->name; t++) {
        struct tile_kernel *k = tile_parse(t->text, t->name);
        if (CHECK(k) && !CHECK(spirv_files_keep(k)))
            test_note("%s: %s", t->name, zl_error() ? zl_error() : "?");
        zl_clear_error();
        tile_free(k);
    }
    test_setenv("ZL_TEST_SPIRV", NULL);
    spirv_files_check(test_folder());
}
