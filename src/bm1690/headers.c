// headers.c - the headers that device C includes, and the stub through which a loaded module calls the
// emulator.
//
// Names, types and values are those of the vendor's ABI, so that the vendor's tools accept the same text.
// Prototypes are generated from the table of commands.

#include "bm1690/bm1690.h"

#include <string.h>

static const struct {
    const char *type, *member;
} kinds[] = {
#define KIND(NAME, TYPE, MEMBER, PRINT) [BM1690_KIND_##NAME] = {TYPE, #MEMBER},
    BM1690_KINDS(KIND)
#undef KIND
};

// Types -----------------------------------------------------------------------------------------------------

static const char types[] =
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "typedef unsigned int local_addr_t, static_addr_t, u32;\n"
    "typedef unsigned long long l2_sram_addr_t, system_addr_t, global_addr_t, addr_t, u64;\n"
    "typedef long long i64;\n"
    "typedef enum { DT_UINT8 = 0, DT_INT8 = 1, DT_FP16 = 3, DT_FP32 = 5, DT_UINT16 = 6, DT_INT16 = 7, "
    "DT_UINT32 = 8, DT_INT32 = 9,\n"
    "    DT_BFP16 = 11, DT_UINT4 = 12, DT_INT4 = 13, DT_FP8E5M2 = 15, DT_FP20 = 17, DT_TF32 = 19, DT_FP8E4M3 "
    "= 47 } data_type_t;\n"
    "typedef enum { RM_HALF_TO_EVEN, RM_HALF_AWAY_FROM_ZERO, RM_TOWARDS_ZERO, RM_DOWN, RM_UP, RM_HALF_UP, "
    "RM_HALF_DOWN }\n"
    "    rounding_mode_t;\n"
    "typedef enum { REDUCE_MEAN, REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_L2, REDUCE_L1 } "
    "reduce_method_t;\n"
    "typedef struct { int n, c, h, w; } dim4;\n"
    "typedef struct { int d, h, w; } dim3;\n"
    "typedef struct { int h, w; } dim2;\n"
    "typedef struct { int top, bottom, left, right; } padding_t;\n"
    "typedef struct { int start, end; } range_t;\n"
    "typedef union { unsigned char bits; struct { unsigned char frac : 2, exp : 5, sign : 1; } format; } "
    "float8e5m2;\n"
    "typedef union { unsigned char bits; struct { unsigned char frac : 3, exp : 4, sign : 1; } format; } "
    "float8e4m3;\n"
    "typedef union { unsigned short bits; struct { unsigned short frac : 10, exp : 5, sign : 1; } format; } "
    "float16;\n"
    "typedef union { unsigned short bits; struct { unsigned short frac : 7, exp : 8, sign : 1; } format; } "
    "bfloat16;\n"
    "typedef union { char s4; unsigned char u4; char s8; unsigned char u8; float8e5m2 f8e5m2; float8e4m3 "
    "f8e3m4; short s16;\n"
    "    unsigned short u16; float16 f16; bfloat16 bf16; int s32; unsigned int u32; float f32; } scalar_t;\n"
    "typedef enum { TENSOR, SCALAR, VECTOR } var_type_t;\n"
    "typedef union { scalar_t scalar; local_addr_t addr; } var_context_t;\n"
    "typedef struct { var_type_t type; var_context_t context; } variable_t;\n"
    "typedef enum { ALL_REDUCE_PSUM_WO, ALL_REDUCE_PSUM_WR } all_reduce_psum_t;\n"
    "typedef enum { ALL_REDUCE_NOP, ALL_REDUCE_MUL, ALL_REDUCE_MAX, ALL_REDUCE_MIN, ALL_REDUCE_ADD } "
    "all_reduce_opcode_t;\n"
    "typedef enum { FUNC_TYPE_1, FUNC_TYPE_2 } func_type_t;\n";

// A module's functions are found by their names: registering one only makes the name known outside of the
// file.
static const char macros[] =
    "#define THREAD\n"
    "#define NO_USE 0\n"
    "#define TPUKERNEL_FUNC_REGISTER(func) \\\n"
    "    void func##_wrapper(const void *arguments) { func(arguments); }\n"
    "#define TPUKERNEL_FUNC2_REGISTER(func) \\\n"
    "    void func##_wrapper(void *arguments, int bytes) { func(arguments, bytes); }\n"
    "#define TPUKERNEL_LOG(...) ((void)0)\n"
    "#define TPUKERNEL_DBG(...) ((void)0)\n"
    "#define TPUKERNEL_ASSERT(x) ((x) ? (void)0 : tpu_kernel_assertion(__FILE__, __LINE__, #x))\n"
    "#define TPUKERNEL_ASSERT_INFO(x, ...) TPUKERNEL_ASSERT(x)\n"
    "#define TPUKERNEL_ERR(...) tpu_kernel_assertion(__FILE__, __LINE__, \"TPUKERNEL_ERR\")\n"
    "#define UNUSED(x) (void)(x)\n"
    "#ifndef MIN\n#define MIN(x, y) ((x) < (y) ? (x) : (y))\n#endif\n"
    "#ifndef MAX\n#define MAX(x, y) ((x) > (y) ? (x) : (y))\n#endif\n"
    "#define DIV_UP(x, y) (((x) + (y) - 1) / (y))\n"
    "#define ALIGN(x, y) (DIV_UP(x, y) * (y))\n"
    "#define ALIGN_DOWN(x, y) ((x) / (y) * (y))\n"
    "#define NPU_NUM tpu_npu_num()\n"
    "#define LOCAL_MEM_SIZE tpu_local_mem_size_per_npu()\n"
    "#define LOCAL_MEM_BANKS tpu_bank_num()\n"
    "#define LOCAL_BANK_SIZE (LOCAL_MEM_SIZE / LOCAL_MEM_BANKS)\n"
    "#define BANK_SIZE LOCAL_BANK_SIZE\n"
    "#define LOCAL_MEM_START_ADDR tpu_local_mem_get_start_addr()\n"
    "#define STATIC_MEM_START_ADDR tpu_static_mem_get_start_addr()\n"
    "#define L2_SRAM_START_ADDR tpu_l2_sram_get_start_addr()\n"
    "#define L2_SRAM_SIZE tpu_l2_sram_size()\n"
    "#define EU_NUM tpu_eu_num(DT_FP32)\n"
    "#define EU_NUM_32BIT tpu_eu_num(DT_FP32)\n"
    "#define EU_NUM_16BIT tpu_eu_num(DT_FP16)\n"
    "#define EU_NUM_8BIT tpu_eu_num(DT_INT8)\n"
    "#define ALIGN_BYTES 64\n"
    "#define FP_ONE(dtype) ((dtype) == DT_FP32 ? 0x3f800000 : (dtype) == DT_FP16 ? 0x3c00 : 0x3f80)\n"
    "#define FP_NEG_ONE(dtype) ((dtype) == DT_FP32 ? 0xbf800000 : (dtype) == DT_FP16 ? 0xbc00 : 0xbf80)\n"
    "#define FP_MAX(dtype) ((dtype) == DT_FP32 ? 0x7f7fffff : (dtype) == DT_FP16 ? 0x7bff : (dtype) == "
    "DT_BFP16 ? 0x7f7f : \\\n"
    "    (dtype) == DT_FP8E4M3 ? 0x7e : 0x7b)\n"
    "#define FP_NEG_MAX(dtype) ((dtype) == DT_FP32 ? 0xff7fffff : (dtype) == DT_FP16 ? 0xfbff : (dtype) == "
    "DT_BFP16 ? 0xff7f : \\\n"
    "    (dtype) == DT_FP8E4M3 ? 0xfe : 0xfb)\n";

// Defines __ppl_tensor_info, the last type below, unless the kernel does so itself: kernels generated for
// older releases do, and their stub then defines PPL_OWN_TENSOR_INFO.
static const char helper[] =
    "#ifndef PPL_HELPER_H\n"
    "#define PPL_HELPER_H\n"
    "#include \"tpu_kernel.h\"\n"
    "#include <assert.h>\n"
    "#include <inttypes.h>\n"
    "#include <math.h>\n"
    "#define ALIGN_UP(value, align) (((value) + (align) - 1) & ~((align) - 1))\n"
    "typedef struct { dim4 shape, stride; global_addr_t addr; data_type_t dtype; int mode, align_mode; long "
    "size, offset;\n"
    "    bool unsigned_flag, default_stride; } ppl_tensor_t;\n"
    "#ifndef PPL_OWN_TENSOR_INFO\n"
    "typedef ppl_tensor_t __ppl_tensor_info;\n"
    "#endif\n"
    "#define check_tensor_overflow(parent, tensor, name) ((void)0)\n"
    "static inline void tpu_poll_with_check_parallel(void) {\n"
    "    bool is_parallel = tpu_is_parallel_state();\n"
    "    if (is_parallel)\n"
    "        tpu_parallel_end();\n"
    "    tpu_poll();\n"
    "    if (is_parallel)\n"
    "        tpu_parallel_start();\n"
    "}\n"
    "static inline bool is_l2sram_addr(u64 addr) {\n"
    "    return addr >= L2_SRAM_START_ADDR && addr < L2_SRAM_START_ADDR + L2_SRAM_SIZE;\n"
    "}\n"
    "static inline void *get_global_ptr(u64 addr) {\n"
    "    return is_l2sram_addr(addr) ? tpu_l2_sram_addr(addr) : tpu_global_mem_addr(addr);\n"
    "}\n"
    "#ifndef PPL_OWN_DTYPE\n"
    "static inline data_type_t __ppl_get_dtype(int type) {\n"
    "    static const data_type_t dtypes[] = {DT_FP32, DT_FP32, DT_FP16, DT_BFP16, DT_FP8E5M2, DT_FP8E4M3, "
    "DT_FP20, DT_TF32,\n"
    "        DT_INT32, DT_UINT32, DT_INT16, DT_UINT16, DT_INT8, DT_UINT8, DT_INT4, DT_UINT4};\n"
    "    return dtypes[type];\n"
    "}\n"
    "#endif\n"
    "#endif\n";

// Prototypes ------------------------------------------------------------------------------------------------

static int parameters_of(const struct bm1690_command *c) {
    int count = 0;
    while (count < BM1690_PARAMETERS && c->parameter[count].name)
        count++;
    return count;
}

static void add_prototype(struct text *out, const struct bm1690_command *c) {
    int count = parameters_of(c);
    text_add(out, "%s %s(", kinds[c->returns].type, c->name);
    for (int i = 0; i < count; i++)
        text_add(out, "%s%s %s", i ? ", " : "", kinds[c->parameter[i].kind].type, c->parameter[i].name);
    text_add(out, "%s)", count ? "" : "void");
}

bool bm1690_header(struct text *out, const char *name) {
    if (!strcmp(name, "ppl_helper.h")) {
        text_add(out, "%s", helper);
        return true;
    }
    if (strcmp(name, "tpu_kernel.h") != 0)
        return false;
    text_add(out, "#ifndef TPU_KERNEL_H\n#define TPU_KERNEL_H\n%s%s", types, macros);
    for (int i = 0; i < bm1690_command_count; i++) {
        add_prototype(out, &bm1690_commands[i]);
        text_add(out, ";\n");
    }
    text_add(out, "#endif\n");
    return true;
}

// Stub ------------------------------------------------------------------------------------------------------

// Tells the helper which of its definitions the file makes itself.
static void add_own(struct text *out, const char *device_c) {
    if (strstr(device_c, "__ppl_get_dtype(int"))
        text_add(out, "#define PPL_OWN_DTYPE\n");
    if (strstr(device_c, "} __ppl_tensor_info"))
        text_add(out, "#define PPL_OWN_TENSOR_INFO\n");
}

static bool is_used(const char *name, const char *device_c) {
    return strstr(device_c, name) || strstr(macros, name) || strstr(helper, name);
}

static void add_function(struct text *out, int index) {
    const struct bm1690_command *c = &bm1690_commands[index];
    int count = parameters_of(c);
    add_prototype(out, c);
    text_add(out, " {\n    union bm1690_value v[%d] = {{0}};\n", count + 1);
    for (int i = 0; i < count; i++) {
        const struct bm1690_parameter *p = &c->parameter[i];
        const char *member = kinds[p->kind].member;
        if (!strcmp(member, "word"))
            text_add(out, "    memcpy(&v[%d].word, &%s, sizeof v[0].word);\n", i, p->name);
        else
            text_add(out, "    v[%d].%s = %s;\n", i, member, p->name);
    }
    text_add(out, "    v[0] = bm1690_call(%d, v);\n", index);
    if (c->returns != BM1690_KIND_NOTHING)
        text_add(out, "    %s result;\n    memcpy(&result, &v[0].%s, sizeof result);\n    return result;\n",
                 kinds[c->returns].type, kinds[c->returns].member);
    text_add(out, "}\n");
}

void bm1690_stub(struct text *out, const char *device_c) {
    add_own(out, device_c);
    text_add(out, "#include \"tpu_kernel.h\"\n#include \"kernel.c\"\n");
    text_add(out, "union bm1690_value { int64_t i; uint64_t u; float f; uint32_t word; const void *p; int "
                  "pair[2], range[2]; };\n"
                  "union bm1690_value (*bm1690_call)(int command, const union bm1690_value *value);\n");
    for (int i = 0; i < bm1690_command_count; i++)
        if (is_used(bm1690_commands[i].name, device_c))
            add_function(out, i);
    text_add(out, "const int bm1690_waits = %d;\n", strstr(device_c, "tpu_sync_all") != NULL);
}
