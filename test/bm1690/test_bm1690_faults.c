// test_bm1690_faults.c - device C with one fault each: the emulator ends the launch with an error that names
// the command and the parameter.

#include "on_chip.h"

#include "device/bm1690/bm1690_code.h"

#include <stdio.h>
#include <string.h>

// Programs on f16 tiles {1, 64, 1, 64}: x is loaded to address 0, a body computes, and y is stored from
// 0x4000. Bodies that are tested together are compiled together.
struct fault {
    const char *body;
    const char *command, *message; // of the error; NULL: there is none
};

enum { BYTES = 64 * 64 * 2 };

static void add_program(struct text *out, int index, const char *body) {
    text_add(out,
             "int run_%d(const void *arguments) {\n"
             "    arguments_t a = *(const arguments_t *)arguments;\n"
             "    dim4 shape = {1, 64, 1, 64}, half = {1, 64, 1, 32}, zeros = {0, 0, 0, 1}, rows = {4096, "
             "64, 64, 1};\n"
             "    dim2 kernel = {1, 64}, one = {1, 1};\n"
             "    padding_t none = {0, 0, 0, 0};\n"
             "    tpu_initialize();\n"
             "    tpu_gdma_cpy_S2L(0, a.x, &shape, NULL, NULL, DT_FP16);\n"
             "    %s\n"
             "    tpu_gdma_cpy_L2S(a.y, 0x4000, &shape, NULL, NULL, DT_FP16);\n"
             "    tpu_poll();\n"
             "    return 0;\n"
             "}\n"
             "TPUKERNEL_FUNC_REGISTER(run_%d)\n",
             index, body, index);
}

static const char opening[] =
    "#include \"ppl_helper.h\"\ntypedef struct { global_addr_t y, x; } arguments_t;\n";

static void check_fault(struct on_chip *t, int index, const struct fault *f) {
    char entry[32];
    uint64_t arguments[2] = {on_chip_put(t, NULL, BYTES), on_chip_put(t, NULL, BYTES)};
    snprintf(entry, sizeof entry, "run_%d", index);
    bool good = bm1690_launch(t->chip, t->module, entry, arguments, sizeof arguments, NULL, NULL);
    bool as_expected = f->message
                           ? CHECK_ERROR(ZL_ERROR_DEVICE, good) && CHECK_HAS(test_last_error(), f->command) &&
                                 CHECK_HAS(test_last_error(), f->message)
                           : CHECK(good);
    if (!as_expected)
        test_note("of %s", f->body);
    on_chip_forget(t);
}

static void check_faults(const struct fault *fault, int count) {
    struct on_chip t;
    struct text text = {0};
    text_add(&text, "%s", opening);
    for (int i = 0; i < count; i++)
        add_program(&text, i, fault[i].body);
    if (CHECK(!text.failed) && on_chip_open(&t, text.data)) {
        for (int i = 0; i < count; i++)
            check_fault(&t, i, &fault[i]);
        on_chip_close(&t);
    }
    text_free(&text);
}

TEST(program_without_a_fault) {
    struct on_chip t;
    struct text text = {0};
    struct bm1690_report r;
    text_add(&text, "%s", opening);
    add_program(&text, 0, "tpu_bdc_fp_add(0x4000, 0, 0, &shape, NULL, NULL, NULL, DT_FP16);");
    REQUIRE(on_chip_open(&t, text.data));
    uint64_t arguments[2] = {on_chip_put(&t, NULL, BYTES), on_chip_put(&t, NULL, BYTES)};
    CHECK(bm1690_launch(t.chip, t.module, "run_0", arguments, sizeof arguments,
                        &(struct bm1690_options){.traces = true}, &r));
    CHECK_EQ_INT((int64_t)r.commands[BM1690_TIU], 1);
    CHECK_EQ_INT((int64_t)r.commands[BM1690_GDMA], 2);
    CHECK_EQ_INT((int64_t)r.bytes, 2 * BYTES);
    CHECK_HAS(
        r.trace.data,
        "0 tpu_bdc_fp_add dst_addr=0x4000 src0_addr=0x0 src1_addr=0x0 shape={1,64,1,64} dst_stride=NULL");
    // Two copies of 8 KiB at 68.3 bytes per cycle, and two vectors per lane.
    CHECK_NEAR(r.cycles, 2 * BYTES / 68.3 + 2, 1e-9);
    bm1690_report_free(&r);
    text_free(&text);
    on_chip_close(&t);
}

TEST(addresses_are_aligned) {
    static const struct fault faults[] = {
        {"tpu_bdc_fp_add(0x4002, 0, 0, &shape, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "dst_addr is 0x4002; it is to be a multiple of 64 bytes"},
        {"tpu_bdc_fp_add(0x4000, 1, 0, &shape, NULL, &rows, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "src0_addr is 0x1; it is to be a multiple of 2 bytes"},
        // A copy may begin at any aligned address; but then the first bytes that the store reads are missing.
        {"tpu_gdma_cpy_S2L(0x4002, a.x, &shape, NULL, NULL, DT_FP16);", "tpu_gdma_cpy_L2S",
         "src_addr reads byte 0x4000 of lane 0"},
        {"tpu_gdma_cpy_S2L(0x4001, a.x, &shape, NULL, NULL, DT_FP16);", "tpu_gdma_cpy_S2L",
         "dst_addr is 0x4001; it is to be a multiple of 2 bytes"},
        {"tpu_bdc_load_fp_exp_coeff(0x50000, DT_FP16);", "tpu_bdc_load_fp_exp_coeff",
         "constants begin in lane 0"},
        {"tpu_bdc_npu_bcast(0x44000, 0, &shape, DT_FP16);", "tpu_bdc_npu_bcast",
         "64 channels from lane 1 on"},
        {"tpu_gdma_cpy_S2L(0x4000, a.x + 1, &half, NULL, NULL, DT_FP16);", "tpu_gdma_cpy_S2L",
         "it is to be a multiple of 2 bytes"},
        {"tpu_bdc_fp_mm(0x4002, 0, 0, 64, 64, 64, DT_FP16, DT_FP16, false);", "tpu_bdc_fp_mm",
         "output_addr is 0x4002"},
    };
    check_faults(faults, (int)COUNT(faults));
}

TEST(ranges_end_within_lanes_and_buffers) {
    static const struct fault faults[] = {
        {"tpu_bdc_fp_add(0x3ffc0, 0, 0, &shape, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "end is byte 262208 of its lanes; a lane has 262144"},
        {"tpu_bdc_fp_add(0x1000000, 0, 0, &shape, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "local memory ends at"},
        {"tpu_gdma_cpy_S2L(0x4000, a.x + 2, &shape, NULL, NULL, DT_FP16);", "tpu_gdma_cpy_S2L", "src_addr"},
        {"tpu_gdma_cpy_S2L(0x4000, 0, &shape, NULL, NULL, DT_FP16);", "tpu_gdma_cpy_S2L",
         "in no allocation of the device"},
        {"*(int *)tpu_global_mem_addr(4) = 1;", "tpu_global_mem_addr", "in no allocation of the device"},
    };
    check_faults(faults, (int)COUNT(faults));
}

TEST(bytes_are_written_before_they_are_read) {
    static const struct fault faults[] = {
        {"", "tpu_gdma_cpy_L2S", "reads byte 0x4000 of lane 0, which no command has written"},
        {"tpu_bdc_fp_add(0x4000, 0, 0x8000, &shape, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "src1_addr reads byte 0x8000"},
        // 64 columns are read, but only 32 were written.
        {"tpu_gdma_cpy_S2L(0x8000, a.x, &half, NULL, NULL, DT_FP16);\n"
         "tpu_bdc_cpy(0x4000, 0x8000, &shape, NULL, NULL, DT_FP16);",
         "tpu_bdc_cpy", "src_addr reads byte 0x8040 of lane 0"},
        {"tpu_bdc_fp_mm(0x4000, 0, 0, 64, 64, 64, DT_FP32, DT_FP16, true);", "tpu_bdc_fp_mm",
         "output_addr reads byte 0x4000"},
        // The control program's own stores count, from their address on.
        {"memset(tpu_local_mem_addr(0, 0x4000), 0, 128);\n"
         "for (int i = 1; i < 64; i++) *(int *)tpu_local_mem_addr(i, 0x4000) = 0;",
         NULL, NULL},
        // A function leaves nothing usable in its work areas.
        {"tpu_bdc_load_fp_exp_coeff(0x10000, DT_FP16);\n"
         "tpu_bdc_fp_exp(0x4000, 0, 0x8000, 0xc000, 0x10000, &shape, DT_FP16);\n"
         "tpu_bdc_cpy(0x4000, 0x8000, &shape, NULL, NULL, DT_FP16);",
         "tpu_bdc_cpy", "src_addr reads byte 0x8000"},
    };
    check_faults(faults, (int)COUNT(faults));
}

TEST(engines_do_not_meet_in_a_parallel_region) {
    static const struct fault faults[] = {
        {"tpu_parallel_start();\n"
         "tpu_gdma_cpy_S2L(0x8000, a.x, &shape, NULL, NULL, DT_FP16);\n"
         "tpu_bdc_fp_add(0x4000, 0, 0x8000, &shape, NULL, NULL, NULL, DT_FP16);\n"
         "tpu_parallel_end();",
         "tpu_bdc_fp_add", "conflicts with tpu_gdma_cpy_S2L in the same parallel region"},
        {"tpu_parallel_start();\n"
         "tpu_bdc_fp_add(0x4000, 0, 0, &shape, NULL, NULL, NULL, DT_FP16);\n"
         "tpu_gdma_cpy_S2L(0x40, a.x, &half, NULL, NULL, DT_FP16);\n"
         "tpu_parallel_end();",
         "tpu_gdma_cpy_S2L", "conflicts with tpu_bdc_fp_add"},
        // Two buffers that alternate within each lane share no byte; nor do lanes 0 to 31 and 32 to 63.
        {"dim4 part = {1, 32, 1, 64};\n"
         "tpu_parallel_start();\n"
         "tpu_bdc_fp_add(0x4000, 0, 0, &half, &rows, &rows, &rows, DT_FP16);\n"
         "tpu_gdma_cpy_S2L(0x4040, a.x, &half, &rows, NULL, DT_FP16);\n"
         "tpu_bdc_fp_add(0x8000, 0, 0, &part, NULL, NULL, NULL, DT_FP16);\n"
         "tpu_gdma_cpy_S2L(32 * 0x40000 + 0x8000, a.x, &part, NULL, NULL, DT_FP16);\n"
         "tpu_parallel_end();",
         NULL, NULL},
        {"tpu_parallel_start(); tpu_parallel_start();", "tpu_parallel_start", "is open"},
        {"tpu_parallel_end();", "tpu_parallel_end", "no parallel region is open"},
        {"tpu_bdc_cpy(0x4000, 0, &shape, NULL, NULL, DT_FP16); tpu_parallel_start();", "tpu_parallel_end",
         "ends in a parallel region"},
    };
    check_faults(faults, (int)COUNT(faults));
}

TEST(parameters_follow_the_table) {
    static const struct fault faults[] = {
        {"tpu_bdc_fp_add(0x4000, 0, 0, &zeros, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "shape is {0,0,0,1}; each is to be within 1 to 65535"},
        {"tpu_bdc_fp_add(0x4000, 0, 0, &shape, NULL, NULL, NULL, DT_INT32);", "tpu_bdc_fp_add",
         "dtype is 9 (INT32); it is to be one of FP16 FP32 BFP16"},
        {"tpu_bdc_fp_add(0x4000, 0, 0, NULL, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add", "shape is NULL"},
        {"tpu_bdc_fp_add(0x44000, 0, 0, &half, NULL, NULL, NULL, DT_FP16);", "tpu_bdc_fp_add",
         "src0_addr begins in lane 0, dst_addr in lane 1"},
        {"tpu_bdc_fp_mm(0x4000, 0, 0, 64, 70000, 64, DT_FP16, DT_FP16, false);", "tpu_bdc_fp_mm",
         "left_cols is 70000; it is to be within 1 to 65535"},
        {"tpu_bdc_fp_mm(0x4000, 0, 0, 64, 64, 64, DT_BFP16, DT_FP16, false);", "tpu_bdc_fp_mm",
         "output_dtype is BFP16; of products of FP16 it is to be FP32 or FP16"},
        {"tpu_bdc_fp_mm(0x44000, 0, 0, 32, 64, 64, DT_FP16, DT_FP16, false);", "tpu_bdc_fp_mm",
         "begin in lane 0"},
        {"one.h = 16;\n"
         "tpu_bdc_fp_max_pool2d(0x4000, 0, &shape, &kernel, &none, &one, &one, DT_FP16, "
         "(scalar_t){.u32 = 0});",
         "tpu_bdc_fp_max_pool2d", "stride is {16,1}; each is to be within 1 to 15"},
        {"tpu_bdc_load_fp_exp_coeff(0x8000, DT_FP16);\n"
         "tpu_bdc_fp_add(0x8000, 0, 0, &shape, NULL, NULL, NULL, DT_FP16);\n"
         "tpu_bdc_fp_exp(0x4000, 0, 0xc000, 0x10000, 0x8000, &shape, DT_FP16);",
         "tpu_bdc_fp_exp", "coeff_addr holds other bytes"},
        {"tpu_bdc_load_fp_log_coeff(0x8000, DT_FP16);\n"
         "tpu_bdc_fp_exp(0x4000, 0, 0xc000, 0x10000, 0x8000, &shape, DT_FP16);",
         "tpu_bdc_fp_exp", "those of another function"},
        {"TPUKERNEL_ASSERT(a.x == 0);", "tpu_kernel_assertion", "a.x == 0"},
    };
    check_faults(faults, (int)COUNT(faults));
}

// There is no such command: the compiler's error names it.
TEST(a_left_transpose_alone_is_refused) {
    struct text text = {0};
    text_add(&text, "%s", opening);
    add_program(&text, 0, "tpu_bdc_fp_mm_L_trans(0x4000, 0, 0, 64, 64, 64, DT_FP16, DT_FP16, false);");
    CHECK_ERROR(ZL_ERROR_COMPILE, device_bm1690_load(text.data));
    CHECK_HAS(test_last_error(), "tpu_bdc_fp_mm_L_trans");
    text_free(&text);
}

TEST(cores_wait_for_each_other) {
    static const char text[] = "#include \"ppl_helper.h\"\n"
                               "typedef struct { global_addr_t y, x; } arguments_t;\n"
                               "int pass_on(const void *arguments) {\n"
                               "    arguments_t a = *(const arguments_t *)arguments;\n"
                               "    dim4 shape = {1, 1, 1, 16};\n"
                               "    int core = tpu_core_index(), cores = tpu_core_num();\n"
                               "    tpu_initialize();\n"
                               "    for (int i = 0; i < cores; i++) {\n"
                               "        if (i == core) {\n"
                               "            tpu_gdma_cpy_S2L(0, a.x, &shape, NULL, NULL, DT_FP32);\n"
                               "            tpu_bdc_fp_add(64, 0, 0, &shape, NULL, NULL, NULL, DT_FP32);\n"
                               "            tpu_gdma_cpy_L2S(a.x, 64, &shape, NULL, NULL, DT_FP32);\n"
                               "        }\n"
                               "        tpu_sync_all();\n"
                               "    }\n"
                               "    return 0;\n"
                               "}\n"
                               "int leave(const void *arguments) {\n"
                               "    if (tpu_core_index() == 1)\n"
                               "        return 0;\n"
                               "    tpu_sync_all();\n"
                               "    return 0;\n"
                               "}\n"
                               "int fail(const void *arguments) {\n"
                               "    TPUKERNEL_ASSERT(tpu_core_index() != 2);\n"
                               "    tpu_sync_all();\n"
                               "    return 0;\n"
                               "}\n";
    struct on_chip t;
    float x[16];
    REQUIRE(on_chip_open(&t, text));
    for (int i = 0; i < 16; i++)
        x[i] = (float)i;
    uint64_t arguments[2] = {0, on_chip_put(&t, x, sizeof x)};
    struct bm1690_options all = {.cores = BM1690_CORES};
    CHECK(bm1690_launch(t.chip, t.module, "pass_on", arguments, sizeof arguments, &all, NULL));
    CHECK(bm1690_read(t.chip, arguments[1], x, sizeof x));
    CHECK_EQ_F64(x[3], 3 * 256);
    CHECK_ERROR(ZL_ERROR_DEVICE,
                bm1690_launch(t.chip, t.module, "leave", arguments, sizeof arguments, &all, NULL));
    CHECK_HAS(test_last_error(), "waits for cores that have ended");
    CHECK_ERROR(ZL_ERROR_DEVICE,
                bm1690_launch(t.chip, t.module, "fail", arguments, sizeof arguments, &all, NULL));
    CHECK_HAS(test_last_error(), "core 2");
    CHECK_ERROR(ZL_ERROR_VALUE, bm1690_launch(t.chip, t.module, "nothing", NULL, 0, &all, NULL));
    on_chip_close(&t);
}

// Programs that other tools generate: NULL descriptors of strides, a function called main, and their own
// helper functions.
TEST(programs_of_other_tools) {
    static const char text[] =
        "#include \"ppl_helper.h\"\n"
        "static data_type_t __ppl_get_dtype(int type) { return DT_FP32; }\n"
        "typedef struct { dim4 shape, stride; global_addr_t addr; bool default_stride; } __ppl_tensor_info;\n"
        "void main(global_addr_t y, global_addr_t x) {\n"
        "    __ppl_tensor_info a = {.shape = {1, 4, 1, 4}, .stride = NULL, .addr = 64, .default_stride = "
        "true};\n"
        "    scalar_t least = {.f16 = FP_NEG_MAX(DT_FP16)};\n"
        "    tpu_gdma_cpy_S2L(a.addr, x, &a.shape, a.default_stride ? NULL : &a.stride, NULL, DT_FP32);\n"
        "    tpu_parallel_start();\n"
        "    tpu_bdc_fp_mul_C(a.addr, a.addr, (scalar_t){.f32 = 2}, &a.shape, NULL, NULL, "
        "__ppl_get_dtype(0));\n"
        "    tpu_poll_with_check_parallel();\n"
        "    tpu_parallel_end();\n"
        "    tpu_gdma_cpy_L2S(y, a.addr, &a.shape, NULL, NULL, DT_FP32);\n"
        "}\n"
        "static int main_kernel(const void *arguments) {\n"
        "    const global_addr_t *a = arguments;\n"
        "    main(a[0], a[1]);\n"
        "    return 64 / tpu_eu_num(77);\n"
        "}\n"
        "TPUKERNEL_FUNC_REGISTER(main_kernel)\n";
    struct on_chip t;
    float x[16], y[16] = {0};
    REQUIRE(on_chip_open(&t, text));
    for (int i = 0; i < 16; i++)
        x[i] = (float)i;
    uint64_t arguments[2] = {on_chip_put(&t, NULL, sizeof y), on_chip_put(&t, x, sizeof x)};
    CHECK_ERROR(ZL_ERROR_DEVICE,
                bm1690_launch(t.chip, t.module, "main_kernel", arguments, sizeof arguments, NULL, NULL));
    CHECK_HAS(test_last_error(), "tpu_eu_num: dtype is 77");
    CHECK(bm1690_read(t.chip, arguments[0], y, sizeof y));
    CHECK_EQ_F64(y[5], 10);
    on_chip_close(&t);
}
