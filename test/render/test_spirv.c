// test_spirv.c - kernels as SPIR-V: validation by spirv-val, the layout of arguments, and texts in the
// disassembly.

#include "device/spirv_files.h"
#include "test.h"

#include "kernel/kernel.h"
#include "render/render.h"
#include "render/spirv/spirv.h"

#include <stdio.h>
#include <string.h>

static struct tile_kernel *parse(const char *text) {
    struct tile_kernel *k = tile_parse(text, "sample");
    if (!CHECK(k))
        test_note("%s", zl_error() ? zl_error() : "?");
    return k;
}

// Kernels of different statements, ops and dtypes, each a module of its own.
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

// Arguments -------------------------------------------------------------------------------------------------

static const char *const arguments =
    "kernel arguments(a: f32[n], s: f16, t: table i64[2, 3], b: u8[n], c: f64) -> (y: f32[n]) {\n"
    "  global room: i32[n]\n"
    "  map i in n { room[i] = i32(b[i]) }\n"
    "  map i in n {\n"
    "    assert room[i] >= 0, \"small\"\n"
    "    y[i] = a[i] * f32(s) + f32(t[1, 2]) + f32(c) + f32(room[i])\n"
    "  }\n"
    "}\n";

// Bindings of a, b, y, the scratch memory and assertions; then the number of groups, s, t, c and the only
// symbol.
TEST(spirv_arguments_lie_in_words) {
    struct tile_kernel *k = parse(arguments);
    struct text code = {0}, read = {0};
    const struct target *unit = spirv_unit(0);
    if (!k || !CHECK(render_kernel(&code, k, unit)))
        test_note("%s", zl_error() ? zl_error() : "?");
    else {
        struct spirv_layout l = spirv_layout(k, unit);
        CHECK_EQ_INT(l.buffers, 5);
        CHECK_EQ_INT(l.groups, 20);
        CHECK_EQ_INT(spirv_layout_parameter(&l, k, 1), 24);
        CHECK_EQ_INT(spirv_layout_parameter(&l, k, 2), 28);
        CHECK_EQ_INT(spirv_layout_parameter(&l, k, 4), 28 + 48);
        CHECK_EQ_INT(l.symbols, 28 + 48 + 8);
        CHECK_EQ_INT(l.symbol_bytes, 8);
        CHECK_EQ_INT(l.bytes, l.symbols + 8 * k->symbols);
        CHECK(!l.is_in_buffer && spirv_layout(k, spirv_unit(1)).is_in_buffer);
        CHECK(spirv_disassemble(&read, code.data, (size_t)code.len));
        CHECK(strstr(read.data, "\"arguments_0\"") && strstr(read.data, "\"arguments_1\"") &&
              !strstr(read.data, "\"arguments_2\""));
    }
    text_free(&code);
    text_free(&read);
    tile_free(k);
}

// Devices count the bindings of a module, so buffers that no statement accesses have bindings too.
TEST(spirv_has_all_bindings) {
    struct tile_kernel *k = parse(
        "kernel idle(a: f32[n], b: f32[n]) -> (y: f32[n], z: f32[n]) {\n  map i in n { y[i] = 1.0 }\n}\n");
    struct text code = {0}, read = {0};
    CHECK(k && render_kernel(&code, k, spirv_unit(0)) &&
          spirv_disassemble(&read, code.data, (size_t)code.len));
    for (int i = 0; read.data && i < 4; i++) {
        char binding[16];
        snprintf(binding, sizeof binding, " 33 %d\n", i);
        CHECK(strstr(read.data, binding));
    }
    text_free(&code);
    text_free(&read);
    tile_free(k);
}

// Returns the text of a kernel that reaches its arguments by addresses. The caller frees it.
static char *text_by_address(int bits, int bytes) {
    char source[300];
    struct text code = {0}, read = {0};
    snprintf(source, sizeof source,
             "kernel far%s(a: u%d[n, m]) -> (y: u%d[n, m]) {\n"
             "  map i in n, j in m { y[i, j] = a[n - 1 - i, j] + 1 }\n}\n",
             bits == 32 ? " index 32 " : "", 8 * bytes, 8 * bytes);
    struct tile_kernel *k = parse(source);
    const struct target *far = NULL;
    for (int i = 0; spirv_unit(i); i++)
        far = spirv_unit(i)->spirv->is_far ? spirv_unit(i) : far;
    if (!CHECK(k && far && render_kernel(&code, k, far) &&
               spirv_disassemble(&read, code.data, (size_t)code.len)))
        test_note("%s", zl_error() ? zl_error() : "?");
    text_free(&code);
    tile_free(k);
    return read.data;
}

// Returns whether an op has 64-bit results anywhere.
static bool has_wide(const char *text, const char *op) {
    char line[64];
    const char *type = strstr(text, " = OpTypeInt 64 0\n");
    while (type && type > text && *type != '%')
        type--;
    snprintf(line, sizeof line, "= %s %.*s ", op, type ? (int)strcspn(type, " ") : 0, type ? type : "");
    return type && strstr(text, line);
}

// There are no bindings, and loads state their alignment. Byte offsets have 64 bits, so that elements beyond
// 2^32 bytes are reached; indices too, if the kernel's indices are wide.
TEST(spirv_by_addresses) {
    for (int bits = 32; bits <= 64; bits += 32)
        for (int bytes = 1; bytes <= 8; bytes *= 2) {
            char aligned[32], *text = text_by_address(bits, bytes);
            snprintf(aligned, sizeof aligned, " 2 %d\n", bytes);
            CHECK(text && strstr(text, "OpMemoryModel 5348 3\n") && strstr(text, "= OpConvertUToPtr"));
            CHECK(text && !strstr(text, " 33 0\n") && strstr(text, aligned));
            CHECK(text && has_wide(text, "OpShiftLeftLogical") && has_wide(text, "OpIMul") == (bits == 64));
            memory_free(text);
        }
}

// Text ------------------------------------------------------------------------------------------------------

TEST(spirv_is_shown_as_text) {
    zl_kernel k = zl_kernel_parse(
        "kernel plus(a: f32[n]) -> (y: f32[n]) {\n  map i in n { y[i] = a[i] + 2.0 }\n}\n", "plus");
    char *text = k ? zl_kernel_print(k, "spirv") : NULL;
    CHECK(text && !strncmp(text, "; SPIR-V 1.5, ", 14));
    CHECK(text && strstr(text, "OpEntryPoint 5 %") && strstr(text, " \"plus_0\"") &&
          strstr(text, "= OpFAdd %"));
    CHECK(text && strstr(text, "OpExtInstImport \"GLSL.std.450\"\n") && strstr(text, "\nOpFunctionEnd\n"));
    zl_free(text);
    zl_kernel_release(k);
}

TEST(text_of_what_is_no_spirv) {
    static const unsigned char good[] = {3, 2, 35, 7, 0, 5, 1,  0, 0, 0, 0, 0, 1, 0,
                                         0, 0, 0,  0, 0, 0, 17, 0, 2, 0, 1, 0, 0, 0};
    unsigned char bad[sizeof good];
    struct text out = {0};
    CHECK(spirv_disassemble(&out, (const char *)good, sizeof good));
    CHECK_ERROR(ZL_ERROR_VALUE, spirv_disassemble(&out, (const char *)good, sizeof good - 4));
    CHECK(strstr(test_last_error(), "says that"));
    CHECK_ERROR(ZL_ERROR_VALUE, spirv_disassemble(&out, (const char *)good, sizeof good - 1));
    CHECK(strstr(test_last_error(), "no module"));
    memcpy(bad, good, sizeof bad);
    bad[22] = 0;
    CHECK_ERROR(ZL_ERROR_VALUE, spirv_disassemble(&out, (const char *)bad, sizeof bad));
    CHECK(strstr(test_last_error(), "says that"));
    text_free(&out);
}

// If a unit does not round an op once, the op is computed in another way.
TEST(spirv_of_units_that_round_otherwise) {
    static const char divide[] = "kernel over(a: f32[n], b: f32[n]) -> (y: f32[n]) {\n  map i in n { y[i] = "
                                 "fma(a[i], b[i], a[i] / b[i]) }\n}\n";
    for (int i = 0; spirv_unit(i); i++) {
        const struct target_spirv *unit = spirv_unit(i)->spirv;
        struct tile_kernel *k = parse(divide);
        struct text code = {0}, read = {0};
        CHECK(k && render_kernel(&code, k, spirv_unit(i)) &&
              spirv_disassemble(&read, code.data, (size_t)code.len));
        bool is_wide = read.data && strstr(read.data, "OpTypeFloat 64\n");
        CHECK(is_wide == !(unit->has_exact_fma && unit->has_exact_divide));
        CHECK(read.data && (strstr(read.data, "OpFunctionCall") != NULL) ==
                               !(unit->has_exact_fma && unit->has_exact_divide));
        text_free(&code);
        text_free(&read);
        tile_free(k);
    }
}

// Products of 16-bit floats by cooperative matrices, which spirv-val of Debian 12 does not know: only checks
// for some texts.
TEST(spirv_of_products) {
    static const char gemm[] = "kernel product(a: f16[64, 64], b: f16[64, 64]) -> (y: f32[64, 64]) {\n"
                               "  grid g in 1, threads 128 {\n"
                               "    shared left: f16[64, 64]\n"
                               "    shared right: f16[64, 64]\n"
                               "    fragment sum: f32[64, 64]\n"
                               "    copy a[0, 0] -> left\n"
                               "    copy b[0, 0] -> right\n"
                               "    gemm left, right -> sum clear\n"
                               "    copy sum -> y[0, 0]\n"
                               "  }\n"
                               "}\n";
    struct target_unit unit;
    struct text code = {0}, read = {0};
    target_set_unit(&unit, render_target("spirv_tiles"), "a unit of matrices", 1024, 48 << 10);
    unit.group.subgroup = 16;
    target_set_matrices(&unit, PASS_F16 | PASS_BF16);
    CHECK(!unit.target.multiplies && !unit.spirv.matrices);
    unit.group.subgroup = 32;
    target_set_matrices(&unit, PASS_F16 | PASS_BF16);
    CHECK(!unit.target.multiplies && !unit.spirv.matrices);
    unit.spirv.has_shared_layout = true;
    target_set_matrices(&unit, PASS_F16 | PASS_BF16);
    struct tile_kernel *k = parse(gemm);
    if (!CHECK(k && render_kernel(&code, k, &unit.target) &&
               spirv_disassemble(&read, code.data, (size_t)code.len)))
        test_note("%s", zl_error() ? zl_error() : "?");
    CHECK(read.data && !strncmp(read.data, "; SPIR-V 1.6, ", 14) && strstr(read.data, "OpMemoryModel 0 3\n"));
    CHECK(read.data && strstr(read.data, "OpCooperativeMatrixLoadKHR") &&
          strstr(read.data, "OpCooperativeMatrixMulAddKHR") &&
          strstr(read.data, "OpCooperativeMatrixStoreKHR"));
    CHECK(unit.group.most_shared == (48 << 10) - TARGET_EXCHANGED * TARGET_EXCHANGERS);
    text_free(&code);
    text_free(&read);
    tile_free(k);
}

// A tile that asks for vectors has them even if a tile of one element per row comes first, and if the columns
// are only known at run time.
TEST(tiles_have_vectors_behind_one_of_lines) {
    static const char code[] = "kernel shift(a: f32[4 * n]) -> (y: f32[4 * n]) where n >= 1, n <= 256 {\n"
                               "  grid g in 1, threads 128 {\n"
                               "    fragment p: f32[1, 1024] align 16\n"
                               "    fragment s: f32[1]\n"
                               "    fragment x: f32[1, 1024] align 16\n"
                               "    fill p = 1\n"
                               "    reduce add p -> s axis 1\n"
                               "    map i in 1, j in 4 * n { x[i, j] = a[j] + s[i] }\n"
                               "    map i in 1, j in 4 * n { y[j] = x[i, j] }\n"
                               "  }\n"
                               "}\n";
    struct target_unit unit;
    target_set_unit(&unit, render_target("spirv_tiles"), "a unit", 1024, 32 << 10);
    struct tile_kernel *k = parse(code);
    bool good = k && pass_run(k, &unit.target, "threads");
    char *text = good ? tile_print(k) : NULL;
    if (CHECK(text)) {
        CHECK(strstr(text, "local x: f32[1, 8]"));
        CHECK(strstr(text, "u32(t) * 4"));
    }
    memory_free(text);
    tile_free(k);
}

// Without asynchronous copies, the tiles of the next turn are in registers during a turn. There is one
// barrier per turn, and none between the product and its reads, if there is memory for two stages; with
// memory for one stage, there is a second barrier.
TEST(pipelines_hold_what_comes_next_in_registers) {
    static const char sums[] = "kernel sums(a: f32[n, 32]) -> (y: f32[32]) where n % 32 == 0 {\n"
                               "  grid g in 1, threads 64 {\n"
                               "    shared s: f32[32, 32]\n"
                               "    fragment sum: f32[32] = 0\n"
                               "    pipeline t in n // 32 stages 3 {\n"
                               "      copy a[t * 32, 0] of [32, 32] -> s\n"
                               "      map j in 32 { for i in 32 { sum[j] = sum[j] + s[i, j] } }\n"
                               "    }\n"
                               "    copy sum -> y[0]\n"
                               "  }\n"
                               "}\n";
    struct target_unit unit;
    target_set_unit(&unit, render_target("spirv_tiles"), "a unit", 1024, 32 << 10);
    static const int room[] = {0, 8 << 10, 32 << 10}; // for no, one and two stages
    for (int stages = 0; stages <= 2; stages++) {
        struct tile_kernel *k = parse(sums);
        unit.group.shared_bytes = room[stages];
        bool good = k && pass_run(k, &unit.target, "threads");
        char *text = good ? tile_print(k) : NULL;
        if (CHECK(text)) {
            int barriers = 0;
            for (const char *at = text; (at = strstr(at, "barrier group")); at++)
                barriers++;
            CHECK_EQ_INT(barriers, stages == 2 ? 1 : 2);
            CHECK_EQ_INT(strstr(text, "local next: f32") != NULL, stages > 0);
            CHECK_EQ_INT(strstr(text, "shared s: f32[1, 32, 32]") != NULL, stages == 1);
            CHECK_EQ_INT(strstr(text, "shared s: f32[2, 32, 32]") != NULL, stages == 2);
        }
        memory_free(text);
        tile_free(k);
    }
}
