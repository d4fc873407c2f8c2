// cuda_quantized_lines.c - a few lines of half floats times a matrix of four bits, by matrix instructions.
//
// Eight warps have 16 rows of the matrix and share their columns, in pieces of 128. A thread reads 32 codes of two rows: of each
// word, codes i and i + 4 are two halves after a shift and a mask, and x is brought into the same order. The columns of the
// instruction are groups of codes and lines of x: for each of its eight columns x is zero outside of its group, so that sums of
// groups stay apart. Ones instead of codes give the sums of x that biases are multiplied with.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/kernels/kernels_quantized.h"

enum { TILE = 16, PIECE = 128, COLUMNS = 8 };

struct recipe {
    struct quantized_key key;
    int32_t dtype, gathered;
    char name[12]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// What has no such kernel is left to others.
static bool fits(const struct call *c, const struct quantized_sizes *s) {
    const int64_t *arg = call_args(c);
    zl_dtype dtype = (zl_dtype)c->in[QMM_X]->dtype;
    bool is_half = dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT16;
    return is_half && arg[QMM_TRANSPOSE] && arg[QMM_BITS] == 4 && arg[QMM_GROUP] >= 32 && s->k % PIECE == 0 &&
           s->words % 4 == 0 && s->x % 8 == 0;
}

// Two halves of codes: bits below those of a large number, which is taken away; or, of small floats, their own bits, of which
// the exponent is too small.
static const char words_bf16[] = "#define TWO(op, d, a, b, c) asm(op \".rn.bf16x2 %0, %1, %2, %3;\" : "
                                 "\"=r\"(d) : \"r\"(a), \"r\"(b), \"r\"(c))\n"
                                 "#define MMA \"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\"\n"
                                 "#define ONES 0x3f803f80u\n#define LARGE 0x43004300u\n#define LESS "
                                 "0xc300c300u\n#define PLACE 6\n#define LIFT 0x7e807e80u\n";
static const char words_f16[] = "#define TWO(op, d, a, b, c) asm(op \".rn.f16x2 %0, %1, %2, %3;\" : "
                                "\"=r\"(d) : \"r\"(a), \"r\"(b), \"r\"(c))\n"
                                "#define MMA \"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\"\n"
                                "#define ONES 0x3c003c00u\n#define LARGE 0x64006400u\n#define LESS "
                                "0xe400e400u\n#define PLACE 9\n#define LIFT 0x74007400u\n";

static const char pieces[] =
    "#undef KERNEL\n#define KERNEL extern \"C\" __global__ void __launch_bounds__(256, 2)\n"
    "#define CLASSES (128 / GROUP_SIZE)\n"
    "FN u32 two_of(u32 word, i32 which) {\n"
    "    u32 codes, y;\n" // one instruction masks and sets bits, if it is told to
    "    asm(\"lop3.b32 %0, %1, %2, %3, 0xea;\" : \"=r\"(codes) : \"r\"(word >> 4 * which), \"r\"(0x000f000fu), \"r\"(AFFINE ? LARGE : 0u));\n"
    "    if (AFFINE)\n"
    "        TWO(\"fma\", y, codes, ONES, LESS);\n"
    "    else\n"
    "        TWO(\"fma\", y, (codes & 0x00080008u) << 12 | (codes & 0x00070007u) << PLACE, LIFT, "
    "0x80008000u);\n"
    "    return y;\n"
    "}\n"
    "FN void multiply(f32 *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {\n"
    "    asm(MMA \" {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
    "        : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a0), \"r\"(a1), \"r\"(a2), "
    "\"r\"(a3), \"r\"(b0), \"r\"(b1));\n"
    "}\n"
    // What a thread reads of a piece: words of its two rows, and x of its column.
    "struct piece { uint4 low, high, x[4]; SCALE scale[4], bias[4]; };\n";

static const char body[] =
    "    LOCAL f32 room[8][16][9];\n"
    "    i32 warp = THREAD / 32, lane = THREAD % 32, g = lane / 4, t = lane % 4, all = (i32)(s.k / 128);\n"
    "    i64 row = block * 16, low = least(row + g, s.rows - 1), high = least(row + g + 8, s.rows - 1);\n"
    "    i64 reads = line + g / CLASSES;\n"
    "    bool is_mine = g % CLASSES == t * CLASSES / 4 && reads < s.m;\n"
    "    const uint4 none = make_uint4(0, 0, 0, 0), *x_from = (const uint4 *)(x + reads * s.k) + 4 * t;\n"
    "    const uint4 *low_from = (const uint4 *)(words + low * s.row_words) + t, *high_from = (const uint4 *)(words + high * s.row_words) + t;\n"
    "    const SCALE *scales_from[4], *biases_from[4];\n"
    "    bool counts[2] = {line + 2 * t / CLASSES < s.m, line + (2 * t + 1) / CLASSES < s.m};\n"
    "    UNROLL for (i32 i = 0; i < 4; i++) {\n"
    "        i64 group = (i < 2 ? low : high) * s.row_groups + (2 * t + i % 2) % CLASSES;\n"
    "        scales_from[i] = scales + group;\n"
    "        biases_from[i] = biases + group;\n"
    "    }\n"
    "    f32 sum[4] = {0, 0, 0, 0};\n"
    "    for (i32 from = warp; from < all; from += 16) {\n"
    "        struct piece p[2];\n"
    "        UNROLL for (i32 u = 0; u < 2; u++) {\n"
    "            i32 at = from + 8 * u;\n"
    "            bool inside = at < all;\n"
    "            p[u].low = inside ? low_from[at * 4] : none;\n"
    "            p[u].high = inside ? high_from[at * 4] : none;\n"
    "            UNROLL for (i32 i = 0; i < 4; i++) {\n"
    "                p[u].x[i] = is_mine && inside ? x_from[at * 16 + i] : none;\n"
    "                p[u].scale[i] = counts[i % 2] && inside ? scales_from[i][at * CLASSES] : 0;\n"
    "                p[u].bias[i] = AFFINE && counts[i % 2] && inside ? biases_from[i][at * CLASSES] : 0;\n"
    "            }\n"
    "        }\n"
    "        UNROLL for (i32 u = 0; u < 2; u++) {\n"
    "            f32 codes[4] = {0, 0, 0, 0}, ones[4] = {0, 0, 0, 0};\n"
    "            UNROLL for (i32 i = 0; i < 4; i++) {\n"
    "                u32 a = i == 0 ? p[u].low.x : i == 1 ? p[u].low.y : i == 2 ? p[u].low.z : p[u].low.w;\n"
    "                u32 b = i == 0 ? p[u].high.x : i == 1 ? p[u].high.y : i == 2 ? p[u].high.z : "
    "p[u].high.w;\n"
    "                u32 x0 = __byte_perm(p[u].x[i].x, p[u].x[i].z, 0x5410), x1 = __byte_perm(p[u].x[i].x, "
    "p[u].x[i].z, 0x7632);\n"
    "                u32 x2 = __byte_perm(p[u].x[i].y, p[u].x[i].w, 0x5410), x3 = __byte_perm(p[u].x[i].y, "
    "p[u].x[i].w, 0x7632);\n"
    "                multiply(codes, two_of(a, 0), two_of(b, 0), two_of(a, 1), two_of(b, 1), x0, x1);\n"
    "                multiply(codes, two_of(a, 2), two_of(b, 2), two_of(a, 3), two_of(b, 3), x2, x3);\n"
    "                if (AFFINE) {\n"
    "                    multiply(ones, ONES, ONES, ONES, ONES, x0, x1);\n"
    "                    multiply(ones, ONES, ONES, ONES, ONES, x2, x3);\n"
    "                }\n"
    "            }\n"
    "            UNROLL for (i32 i = 0; i < 4; i++) {\n"
    "                sum[i] = zl_fma_f32(scale_of(p[u].scale[i]), codes[i], sum[i]);\n"
    "                sum[i] = AFFINE ? zl_fma_f32(scale_of(p[u].bias[i]), ones[i], sum[i]) : sum[i];\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    UNROLL for (i32 i = 0; i < 4; i++)\n"
    "        room[warp][g + i / 2 * 8][2 * t + i % 2] = sum[i];\n"
    "    BARRIER;\n"
    "    i32 mine = THREAD % 16, column = THREAD / 16;\n"
    "    if (column >= 8 / CLASSES || row + mine >= s.rows || line + column >= s.m)\n"
    "        return;\n"
    "    f32 total = 0;\n"
    "    UNROLL for (i32 w = 0; w < 8; w++)\n"
    "        UNROLL for (i32 i = 0; i < CLASSES; i++)\n"
    "            total += room[w][mine][column * CLASSES + i];\n"
    "    y[number * s.m * s.rows + (line + column) * s.rows + row + mine] = item_of(total);\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype dtype = (zl_dtype)r->dtype;
    kernel_begin(out, w->dialect, true);
    if (!kernel_write_quantized(out, &r->key, ZL_FLOAT32, w->dialect) ||
        !kernel_element(out, tile_cast_kernel(ZL_FLOAT32, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, ZL_FLOAT32), w->dialect, "narrow"))
        return false;
    text_add(out, "#define ITEM %s\n#define GATHERED %d\n#define LINES %d\n%s%s%s%s%s",
             kernel_memory_type(dtype), r->gathered, COLUMNS * r->key.group / PIECE,
             dtype == ZL_BFLOAT16 ? words_bf16 : words_f16, pieces, kernel_quantized_text,
             kernel_quantized_begin, body);
    return true;
}

bool cuda_quantized_source(const struct quantized_key *key, zl_dtype dtype, struct text *out) {
    struct recipe r = {*key, (int32_t)dtype, 0, "qmm lines"};
    return write_text(out, &(struct writer){&r, "cuda"}) && !out->failed;
}

enum kernel_taken cuda_quantized_lines(const struct kernel_place *p, const struct call *c) {
    struct quantized_sizes s = kernel_quantized_sizes(c);
    if (!fits(c, &s))
        return KERNEL_NOT_TAKEN;
    const int64_t *arg = call_args(c);
    zl_array y = call_first(c);
    int64_t lines = COLUMNS * arg[QMM_GROUP] / PIECE;
    struct recipe r = {kernel_quantized_key(arg, c->in[QMM_SCALES]), c->in[QMM_X]->dtype,
                       (int32_t)arg[QMM_GATHERED], "qmm lines"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y);
    struct kernel_call k;
    kernel_begin_call(&k);
    s.blocks = (s.rows + TILE - 1) / TILE;
    s.chunks = (s.m + lines - 1) / lines;
    kernel_add_memory(&k, to);
    if (!kernel || !to || !kernel_add_quantized(p, &k, c))
        return KERNEL_FAILED;
    kernel_add(&k, &s, sizeof s);
    int64_t products = y->size / (s.m * s.rows);
    return kernel_launch(p, kernel, s.blocks * s.chunks * products, &k) ? KERNEL_DONE : KERNEL_FAILED;
}
