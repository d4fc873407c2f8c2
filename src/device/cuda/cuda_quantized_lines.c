// cuda_quantized_lines.c - a few lines of half floats times a matrix of four bits, by matrix instructions.
//
// Eight warps have 16 rows of the matrix and share their columns, in pieces of 128. A thread reads 32 codes of two rows: of each
// word, codes i and i + 4 are two halves after a shift and a mask, and x is brought into the same order. The columns of the
// instruction are groups of codes and lines of x: for each of its eight columns x is zero outside of its group, so that sums of
// groups stay apart. Codes are multiplied as bits below those of a large number; ones instead of codes give the sums of x that
// biases are multiplied with, and that number is taken away.
//
// Of one line the columns are groups alone: a warp reads four pieces at once and has their groups in as few instructions.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/kernels/kernels_quantized.h"

enum { TILE = 16, PIECE = 128, COLUMNS = 8 };

struct recipe {
    struct quantized_key key;
    int32_t dtype, gathered, single; // single: one line
    char name[12];                   // no other kernel has such a key
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

// One line is read in pairs of groups, which are counted in 32 bits.
static bool is_single(const struct quantized_sizes *s) {
    return s->m == 1 && s->row_groups % 2 == 0 && s->scales % 2 == 0 && s->biases % 2 == 0 &&
           s->rows * s->row_groups <= INT32_MAX;
}

// The last parameter of the kernels.
struct axes {
    struct quantized_sizes of;
    int64_t blocks, chunks; // groups of threads for rows, and for lines
};

// What a scale is: of affine matrices a number, of mxfp4 an exponent.
static const char scales_affine[] = "FN f32 scale_of(SCALE x) { f32 y; widen_scale(&y, &x); return y; }\n";
static const char scales_mxfp4[] =
    "FN f32 scale_of(SCALE x) { return zl_f32_from(x ? (u32)x << 23 : 1u << 22); }\n";

// How a kernel begins: block, line, number; x, words, scales and biases of its product.
static const char sizes[] =
    "struct zl_axes {\n"
    "    i64 products, m, k, rows, row_words, row_groups;\n"
    "    i64 lists, matrices;\n"
    "    i64 x, words, scales, biases, first, second;\n"
    "    i64 blocks, chunks;\n"
    "};\n"
    "FN i64 nearest(u32 i, i64 count) { return (i64)i < count ? (i64)i : count - 1; }\n"
    "FN i64 least(i64 a, i64 b) { return a < b ? a : b; }\n"
    "FN ITEM item_of(f32 x) {\n    ITEM item;\n    narrow(&item, &x);\n    return item;\n}\n";
static const char begin[] =
    "KERNEL zl_kernel(ITEM *y, const ITEM *x, const u32 *words, const SCALE *scales, const SCALE *biases,\n"
    "                 const u32 *first, const u32 *second, AXES s) {\n"
    "    i64 block = GROUP % s.blocks, line = GROUP / s.blocks % s.chunks * LINES, "
    "number = GROUP / s.blocks / s.chunks;\n"
    "    i64 from = GATHERED ? nearest(first[s.first + number], s.lists) : 0;\n"
    "    i64 which = GATHERED ? nearest(second[s.second + number], s.matrices) : 0;\n"
    "    x += s.x + from * s.m * s.k;\n"
    "    words += s.words + which * s.rows * s.row_words;\n"
    "    scales += s.scales + which * s.rows * s.row_groups;\n"
    "    biases += s.biases + which * s.rows * s.row_groups;\n";

// Two halves of codes: bits below those of a large number; or, of small floats, their own bits, of which the exponent is too
// small. AT: where a code is one.
static const char words_bf16[] =
    "#define TWO(op, d, a, b, c) asm(op \".rn.bf16x2 %0, %1, %2, %3;\" : "
    "\"=r\"(d) : \"r\"(a), \"r\"(b), \"r\"(c))\n"
    "#define MMA \"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\"\n"
    "#define ONES 0x3f803f80u\n#define LARGE 0x43004300u\n#define LESS 128.0f\n#define AT 0\n"
    "#define PLACE 6\n#define LIFT 0x7e807e80u\n";
static const char words_f16[] =
    "#define TWO(op, d, a, b, c) asm(op \".rn.f16x2 %0, %1, %2, %3;\" : "
    "\"=r\"(d) : \"r\"(a), \"r\"(b), \"r\"(c))\n"
    "#define MMA \"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\"\n"
    "#define ONES 0x3c003c00u\n#define LARGE 0x54005400u\n#define LESS 64.0f\n#define AT 4\n"
    "#define PLACE 9\n#define LIFT 0x74007400u\n";

static const char pieces[] =
    "#undef KERNEL\n#define KERNEL extern \"C\" __global__ void __launch_bounds__(256, SINGLE && GROUP_SIZE "
    "> 32 ? 3 : 2)\n"
    "#define CLASSES (128 / GROUP_SIZE)\n"
    "FN u32 two_of(u32 word, i32 which) {\n"
    "    i32 by = 4 * which - AT;\n"
    "    u32 y;\n"
    "    if (AFFINE)\n" // one instruction masks and sets bits, if it is told to
    "        asm(\"lop3.b32 %0, %1, %2, %3, 0xea;\" : \"=r\"(y) : \"r\"(by < 0 ? word << -by : word >> by), "
    "\"r\"(0x000f000fu << AT), \"r\"(LARGE));\n"
    "    else\n"
    "        TWO(\"fma\", y, (word >> 4 * which & 0x00080008u) << 12 | (word >> 4 * which & 0x00070007u) << "
    "PLACE, LIFT, 0x80008000u);\n"
    "    return y;\n"
    "}\n"
    "FN void multiply(f32 *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {\n"
    "    asm(MMA \" {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
    "        : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a0), \"r\"(a1), \"r\"(a2), "
    "\"r\"(a3), \"r\"(b0), \"r\"(b1));\n"
    "}\n"
    "FN u32 word_of(uint4 x, i32 i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }\n"
    // x in the order of codes: of eight numbers, i and i + 4.
    "FN void in_order(u32 *y, uint4 x) {\n"
    "    y[0] = __byte_perm(x.x, x.z, 0x5410);\n"
    "    y[1] = __byte_perm(x.x, x.z, 0x7632);\n"
    "    y[2] = __byte_perm(x.y, x.w, 0x5410);\n"
    "    y[3] = __byte_perm(x.y, x.w, 0x7632);\n"
    "}\n"
    "FN f32 add_group(f32 sum, SCALE scale, SCALE bias, f32 codes, f32 ones) {\n"
    "    sum = zl_fma_f32(scale_of(scale), codes, sum);\n"
    "    return AFFINE ? zl_fma_f32(zl_fma_f32(-LESS, scale_of(scale), scale_of(bias)), ones, sum) : sum;\n"
    "}\n";

// What a thread reads of a piece: words of its two rows, and x of its column.
static const char lines_pieces[] = "struct piece { uint4 low, high, x[4]; SCALE scale[4], bias[4]; };\n";

static const char lines_body[] =
    "    LOCAL f32 room[8][16][9];\n"
    "    i32 warp = THREAD / 32, lane = THREAD % 32, g = lane / 4, t = lane % 4, all = (i32)(s.k / 128);\n"
    "    i64 row = block * 16, low = least(row + g, s.rows - 1), high = least(row + g + 8, s.rows - 1);\n"
    "    i64 reads = line + g / CLASSES;\n"
    "    bool is_mine = g % CLASSES == t * CLASSES / 4 && reads < s.m;\n"
    "    const uint4 none = make_uint4(0, 0, 0, 0), *x_from = (const uint4 *)(x + reads * s.k) + 4 * t;\n"
    "    const uint4 *low_from = (const uint4 *)(words + low * s.row_words) + t, *high_from = (const uint4 "
    "*)(words + high * s.row_words) + t;\n"
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
    "                u32 a = word_of(p[u].low, i), b = word_of(p[u].high, i), v[4];\n"
    "                in_order(v, p[u].x[i]);\n"
    "                multiply(codes, two_of(a, 0), two_of(b, 0), two_of(a, 1), two_of(b, 1), v[0], v[1]);\n"
    "                multiply(codes, two_of(a, 2), two_of(b, 2), two_of(a, 3), two_of(b, 3), v[2], v[3]);\n"
    "                if (AFFINE) {\n"
    "                    multiply(ones, ONES, ONES, ONES, ONES, v[0], v[1]);\n"
    "                    multiply(ones, ONES, ONES, ONES, ONES, v[2], v[3]);\n"
    "                }\n"
    "            }\n"
    "            UNROLL for (i32 i = 0; i < 4; i++)\n"
    "                sum[i] = add_group(sum[i], p[u].scale[i], p[u].bias[i], codes[i], ones[i]);\n"
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

// All codes are asked for before one is waited for; nobody reads them again.
static const char single_pieces[] =
    "typedef PACK(SCALE, 2) pair;\n"
    "FN uint4 read_words(const uint4 *at) {\n"
    "    uint4 x;\n"
    "    asm volatile(\"ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(x.x), "
    "\"=r\"(x.y), \"=r\"(x.z), \"=r\"(x.w) : \"l\"(at));\n"
    "    return x;\n"
    "}\n";

static const char single_body[] =
    "    const i32 SPAN = CLASSES > 2 ? 8 / CLASSES : 4;\n" // pieces whose groups are columns of one instruction
    "    LOCAL f32 room[8][16];\n"
    "    i32 warp = THREAD / 32, lane = THREAD % 32, g = lane / 4, t = lane % 4, all = (i32)(s.k / 128);\n"
    "    i64 row = block * 16, low = least(row + g, s.rows - 1), high = least(row + g + 8, s.rows - 1);\n"
    "    const uint4 none = make_uint4(0, 0, 0, 0), *x_from = (const uint4 *)x + 4 * t;\n"
    "    const uint4 *low_from = (const uint4 *)(words + low * s.row_words) + t, *high_from = (const uint4 "
    "*)(words + high * s.row_words) + t;\n"
    "    i32 groups[2] = {(i32)(low * s.row_groups), (i32)(high * s.row_groups)}, rows = (i32)least(16, "
    "s.rows - row);\n"
    "    y += number * s.rows + row;\n"
    "    f32 sum[2] = {0, 0};\n"
    "    for (i32 from = 4 * warp; from < all; from += 32) {\n"
    "        uint4 a[4], b[4];\n"
    "        pair scale[4 / SPAN][2], bias[4 / SPAN][2];\n"
    "        UNROLL for (i32 i = 0; i < 4; i++) {\n"
    "            i32 at = from + i < all ? from + i : all - 1;\n"
    "            a[i] = read_words(low_from + at * 4);\n"
    "            b[i] = read_words(high_from + at * 4);\n"
    "        }\n"
    "        UNROLL for (i32 u = 0; u < 4 / SPAN; u++) {\n"
    "            i32 at = (from + u * SPAN) * CLASSES + 2 * t, last = all * CLASSES - 2;\n"
    "            UNROLL for (i32 i = 0; i < 2; i++) {\n"
    "                i32 group = groups[i] + (at < last ? at : last);\n"
    "                scale[u][i] = *(const pair *)(scales + group);\n"
    "                bias[u][i] = AFFINE ? *(const pair *)(biases + group) : scale[u][i];\n"
    "            }\n"
    "        }\n"
    "        UNROLL for (i32 u = 0; u < 4 / SPAN; u++) {\n"
    "            i32 at = from + u * SPAN + g / CLASSES;\n"
    "            bool is_mine = g % CLASSES == t * CLASSES / 4 && g / CLASSES < SPAN && at < all;\n"
    "            u32 v[4][4];\n"
    "            f32 codes[2][4] = {}, ones[4] = {};\n"
    "            UNROLL for (i32 i = 0; i < 4; i++)\n"
    "                in_order(v[i], is_mine ? x_from[at * 16 + i] : none);\n"
    "            UNROLL for (i32 piece = 0; piece < SPAN; piece++) {\n"
    "                bool is_here = g / CLASSES == piece;\n"
    "                f32 *to = codes[piece % 2];\n" // two sums, so that instructions wait less for each other
    "                UNROLL for (i32 i = 0; i < 4; i++) {\n"
    "                    u32 y = word_of(a[u * SPAN + piece], i), z = word_of(b[u * SPAN + piece], i), "
    "x[4];\n"
    "                    UNROLL for (i32 j = 0; j < 4; j++)\n"
    "                        x[j] = is_here ? v[i][j] : 0;\n"
    "                    multiply(to, two_of(y, 0), two_of(z, 0), two_of(y, 1), two_of(z, 1), x[0], x[1]);\n"
    "                    multiply(to, two_of(y, 2), two_of(z, 2), two_of(y, 3), two_of(z, 3), x[2], x[3]);\n"
    "                }\n"
    "            }\n"
    "            UNROLL for (i32 i = 0; AFFINE && i < 4; i++) {\n"
    "                multiply(ones, ONES, ONES, ONES, ONES, v[i][0], v[i][1]);\n"
    "                multiply(ones, ONES, ONES, ONES, ONES, v[i][2], v[i][3]);\n"
    "            }\n"
    "            UNROLL for (i32 i = 0; i < 4; i++)\n"
    "                sum[i / 2] = add_group(sum[i / 2], scale[u][i / 2].e[i % 2], bias[u][i / 2].e[i % 2], "
    "codes[0][i] + codes[1][i], ones[i]);\n"
    "        }\n"
    "    }\n"
    "    UNROLL for (i32 i = 0; i < 2; i++) {\n"
    "        sum[i] += __shfl_xor_sync(~0u, sum[i], 1);\n"
    "        sum[i] += __shfl_xor_sync(~0u, sum[i], 2);\n"
    "        if (t == 0)\n"
    "            room[warp][g + 8 * i] = sum[i];\n"
    "    }\n"
    "    BARRIER;\n"
    "    if (THREAD >= rows)\n"
    "        return;\n"
    "    f32 total = 0;\n"
    "    UNROLL for (i32 w = 0; w < 8; w++)\n"
    "        total += room[w][THREAD];\n"
    "    y[THREAD] = item_of(total);\n"
    "}\n";

static int lines_of(int64_t group, bool single) {
    return single ? 1 : COLUMNS * (int)group / PIECE;
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype dtype = (zl_dtype)r->dtype, scales = (zl_dtype)r->key.scales;
    bool affine = r->key.mode == QUANT_AFFINE;
    kernel_begin(out, w->dialect, true);
    if ((affine && !kernel_element(out, tile_cast_kernel(ZL_FLOAT32, scales), w->dialect, "widen_scale")) ||
        !kernel_element(out, tile_cast_kernel(dtype, ZL_FLOAT32), w->dialect, "narrow"))
        return false;
    text_add(out, "#define GROUP_SIZE %d\n#define AFFINE %d\n#define SCALE %s\n", r->key.group, affine,
             kernel_memory_type(scales));
    text_add(out, "#define ITEM %s\n#define GATHERED %d\n#define SINGLE %d\n#define LINES %d\n",
             kernel_memory_type(dtype), r->gathered, r->single, lines_of(r->key.group, r->single));
    text_add(out, "%s%s%s%s%s%s%s", affine ? scales_affine : scales_mxfp4,
             dtype == ZL_BFLOAT16 ? words_bf16 : words_f16, pieces, r->single ? single_pieces : lines_pieces,
             sizes, begin, r->single ? single_body : lines_body);
    return true;
}

bool cuda_quantized_source(const struct quantized_key *key, zl_dtype dtype, bool single, struct text *out) {
    struct recipe r = {*key, (int32_t)dtype, 0, single, "qmm lines"};
    return write_text(out, &(struct writer){&r, "cuda"}) && !out->failed;
}

enum kernel_taken cuda_quantized_lines(const struct kernel_place *p, const struct call *c) {
    struct quantized_sizes s = kernel_quantized_sizes(c);
    if (!fits(c, &s))
        return KERNEL_NOT_TAKEN;
    const int64_t *arg = call_args(c);
    zl_array y = call_first(c);
    bool single = is_single(&s);
    int64_t lines = lines_of(arg[QMM_GROUP], single);
    struct recipe r = {kernel_quantized_key(arg, c->in[QMM_SCALES]), c->in[QMM_X]->dtype,
                       (int32_t)arg[QMM_GATHERED], single, "qmm lines"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y);
    struct kernel_call k;
    kernel_begin_call(&k);
    struct axes axes = {s, (s.rows + TILE - 1) / TILE, (s.m + lines - 1) / lines};
    kernel_add_memory(&k, to);
    if (!kernel || !to || !kernel_add_quantized(p, &k, c))
        return KERNEL_FAILED;
    kernel_add(&k, &axes, sizeof axes);
    return kernel_launch(p, kernel, axes.blocks * axes.chunks * s.products, &k) ? KERNEL_DONE : KERNEL_FAILED;
}
