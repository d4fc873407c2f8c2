// kernels_quantized_matmul.c - products with quantised matrices, whose codes are read once for some lines of x.
//
// Transposed, 32 threads have some rows of the matrix: each reads 32 codes of every row, multiplies them with the same numbers
// of x, and adds scale times the sum of a group and bias times that of x. A code becomes a number by bits that make it the last
// of a large one's, where it lies in its word: x is divided by the power of two that it is too large by. Else 32 columns belong
// to 8 times 32 threads, which share the rows.

#include "device/kernels/kernels_quantized.h"

enum { LANES = 32, WARPS = KERNEL_THREADS / LANES, COLUMNS = 32, UNIT = 32, LINES_MOST = 8 };

struct recipe {
    struct quantized_key key;
    int32_t dtype, transpose, gathered;
    int32_t rows, lines;          // of the matrix and of x that threads have
    int32_t pack, pack_x, ragged; // words and numbers that are read at once; rows end in half a unit
    char name[12];                // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

const char kernel_quantized_text[] =
    "struct zl_axes {\n"
    "    i64 x, words, scales, biases, first, second;\n"
    "    i64 m, k, rows, row_words, row_groups;\n"
    "    i64 lists, matrices, blocks, chunks;\n"
    "};\n"
    "FN i64 nearest(u32 i, i64 count) { return (i64)i < count ? (i64)i : count - 1; }\n"
    "FN i64 least(i64 a, i64 b) { return a < b ? a : b; }\n"
    "FN WIDE load(GLOBAL const ITEM *from) {\n"
    "    ITEM item = *from;\n    WIDE value;\n    widen(&value, &item);\n    return value;\n"
    "}\n"
    "FN ITEM item_of(WIDE x) {\n    ITEM item;\n    narrow(&item, &x);\n    return item;\n}\n";

const char kernel_quantized_begin[] =
    "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *x, GLOBAL const u32 *words, "
    "GLOBAL const SCALE *scales,\n"
    "                 GLOBAL const SCALE *biases, GLOBAL const u32 *first, GLOBAL "
    "const u32 *second, AXES s) {\n"
    "    i64 block = GROUP % s.blocks, line = GROUP / s.blocks % s.chunks * LINES, "
    "number = GROUP / s.blocks / s.chunks;\n"
    "    i64 from = GATHERED ? nearest(first[s.first + number], s.lists) : 0;\n"
    "    i64 which = GATHERED ? nearest(second[s.second + number], s.matrices) : 0;\n"
    "    x += s.x + from * s.m * s.k;\n"
    "    words += s.words + which * s.rows * s.row_words;\n"
    "    scales += s.scales + which * s.rows * s.row_groups;\n"
    "    biases += s.biases + which * s.rows * s.row_groups;\n";

static const char rows_text[] =
    "#define PART (GROUP_SIZE < 32 ? GROUP_SIZE : 32)\n"
    "typedef PACK(u32, PACKED) zl_words;\n"
    "typedef PACK(ITEM, PACKED_X) zl_items;\n"
    // Where code i of a unit lies in half a word; -1: in two words.
    "#define PLACE(i) ((i) * BITS % 32 + BITS > 32 ? -1 : (i) * BITS % 16)\n"
    "#if AFFINE\n"
    "FN f32 value_of(const u32 *w, i32 i) {\n"
    "    i32 at = i * BITS / 32, down = i * BITS % 32;\n"
    "    u32 mask = (1u << BITS) - 1u, bits;\n"
    "    if (down + BITS > 32)\n"
    "        bits = (w[at] >> down | w[at + 1] << (32 - down)) & mask;\n"
    "    else\n"
    "        bits = (down < 16 ? w[at] : w[at] >> 16) & mask << down % 16;\n"
    "    return zl_f32_from(bits | 0x4b000000u) - 8388608.0f;\n"
    "}\n"
    "FN WIDE by_place(i32 i) { return (WIDE)zl_f32_from((u32)(127 - (PLACE(i) < 0 ? 0 : PLACE(i))) << 23); "
    "}\n"
    "#else\n"
    "FN f32 value_of(const u32 *w, i32 i) {\n"
    "    return number_of(w[i * BITS / 32] >> i * BITS % 32 & ((1u << BITS) - 1u));\n"
    "}\n"
    "FN WIDE by_place(i32 i) { return 1; }\n"
    "#endif\n"
    "FN void load_unit(u32 *w, GLOBAL const u32 *words, i64 count) {\n"
    "    UNROLL for (i32 i = 0; i < BITS; i += PACKED)\n"
    "        if (!RAGGED || i < count) {\n"
    "            zl_words some = *(GLOBAL const zl_words *)(words + i);\n"
    "            UNROLL for (i32 j = 0; j < PACKED; j++)\n"
    "                w[i + j] = some.e[j];\n"
    "        }\n"
    "}\n"
    "FN void load_eight(WIDE *e, GLOBAL const ITEM *x) {\n"
    "    UNROLL for (i32 i = 0; i < 8; i += PACKED_X) {\n"
    "        zl_items some = *(GLOBAL const zl_items *)(x + i);\n"
    "        UNROLL for (i32 j = 0; j < PACKED_X; j++)\n"
    "            widen(&e[i + j], &some.e[j]);\n"
    "    }\n"
    "}\n";

static const char rows_body[] =
    "    SLOT(WIDE, slot, 256)\n"
    "    i64 row = (block * 8 + THREAD / 32) * ROWS;\n"
    "    i32 lane = THREAD % 32;\n"
    "    WIDE sum[ROWS][LINES], part[ROWS][LINES], total[LINES];\n"
    "    UNROLL for (i32 l = 0; l < LINES; l++) {\n"
    "        total[l] = 0;\n"
    "        UNROLL for (i32 r = 0; r < ROWS; r++)\n"
    "            sum[r][l] = part[r][l] = 0;\n"
    "    }\n"
    "    UNROLL_2 for (i64 unit = lane; unit * 32 < s.k; unit += 32) {\n"
    "        u32 w[ROWS][BITS];\n"
    "        UNROLL for (i32 r = 0; r < ROWS; r++)\n"
    "            load_unit(w[r], words + least(row + r, s.rows - 1) * s.row_words + unit * BITS, s.row_words "
    "- unit * BITS);\n"
    "        UNROLL for (i32 q = 0; q < 4; q++) {\n"
    "            if (RAGGED && unit * 32 + q * 8 >= s.k)\n"
    "                continue;\n"
    "            WIDE e[LINES][8];\n"
    "            UNROLL for (i32 l = 0; l < LINES; l++) {\n"
    "                load_eight(e[l], x + least(line + l, s.m - 1) * s.k + unit * 32 + q * 8);\n"
    "                UNROLL for (i32 i = 0; i < 8; i++) {\n"
    "                    total[l] += e[l][i];\n"
    "                    e[l][i] *= by_place(q * 8 + i);\n"
    "                }\n"
    "            }\n"
    "            UNROLL for (i32 r = 0; r < ROWS; r++)\n"
    "                UNROLL for (i32 i = 0; i < 8; i++) {\n"
    "                    WIDE value = (WIDE)value_of(w[r], q * 8 + i);\n"
    "                    UNROLL for (i32 l = 0; l < LINES; l++)\n"
    "                        part[r][l] = FMA(value, e[l][i], part[r][l]);\n"
    "                }\n"
    "            if ((q * 8 + 8) % PART)\n"
    "                continue;\n"
    "            i64 group = (unit * 32 + q * 8) / GROUP_SIZE;\n"
    "            UNROLL for (i32 r = 0; r < ROWS; r++) {\n"
    "                i64 at = least(row + r, s.rows - 1) * s.row_groups + group;\n"
    "                WIDE scale = scale_of(scales[at]), bias = AFFINE ? scale_of(biases[at]) : 0;\n"
    "                UNROLL for (i32 l = 0; l < LINES; l++) {\n"
    "                    sum[r][l] = FMA(scale, part[r][l], sum[r][l]);\n"
    "                    sum[r][l] = AFFINE ? FMA(bias, total[l], sum[r][l]) : sum[r][l];\n"
    "                    part[r][l] = 0;\n"
    "                }\n"
    "            }\n"
    "            UNROLL for (i32 l = 0; l < LINES; l++)\n"
    "                total[l] = 0;\n"
    "        }\n"
    "    }\n"
    "    y += number * s.m * s.rows;\n"
    "    UNROLL for (i32 r = 0; r < ROWS; r++)\n"
    "        UNROLL for (i32 l = 0; l < LINES; l++) {\n"
    "            WIDE all = sum[r][l];\n"
    "            UNROLL for (i32 span = 16; span > 0; span /= 2) {\n"
    "                WIDE more;\n"
    "                EXCHANGE(more, all, span, slot);\n"
    "                all += more;\n"
    "            }\n"
    "            if (lane == 0 && row + r < s.rows && line + l < s.m)\n"
    "                y[(line + l) * s.rows + row + r] = item_of(all);\n"
    "        }\n"
    "}\n";

static const char columns_body[] =
    "    LOCAL WIDE room[LINES][256];\n"
    "    i64 columns = s.row_groups * GROUP_SIZE, column = block * 32 + THREAD % 32, at = least(column, "
    "columns - 1);\n"
    "    WIDE sum[LINES];\n"
    "    for (i32 l = 0; l < LINES; l++)\n"
    "        sum[l] = 0;\n"
    "    for (i64 row = THREAD / 32; row < s.rows; row += 8) {\n"
    "        i64 group = row * s.row_groups + at / GROUP_SIZE;\n"
    "        WIDE value = (WIDE)number_of(code_at(words + row * s.row_words, at)) * "
    "scale_of(scales[group]);\n"
    "        value = AFFINE ? value + scale_of(biases[group]) : value;\n"
    "        for (i32 l = 0; l < LINES; l++)\n"
    "            sum[l] = FMA(value, load(x + least(line + l, s.m - 1) * s.k + row), sum[l]);\n"
    "    }\n"
    "    for (i32 l = 0; l < LINES; l++)\n"
    "        room[l][THREAD] = sum[l];\n"
    "    BARRIER;\n"
    "    if (THREAD >= 32 || column >= columns)\n"
    "        return;\n"
    "    y += number * s.m * columns;\n"
    "    for (i32 l = 0; l < LINES && line + l < s.m; l++) {\n"
    "        WIDE all = 0;\n"
    "        for (i32 i = THREAD; i < 256; i += 32)\n"
    "            all += room[l][i];\n"
    "        y[(line + l) * columns + column] = item_of(all);\n"
    "    }\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype dtype = (zl_dtype)r->dtype, wide = tile_reduce_gives(dtype);
    kernel_begin(out, w->dialect, true);
    if (!kernel_write_quantized(out, &r->key, wide, w->dialect) ||
        !kernel_element(out, tile_cast_kernel(wide, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, wide), w->dialect, "narrow"))
        return false;
    text_add(
        out,
        "#define ITEM %s\n#define FMA zl_fma_%s\n#define GATHERED %d\n#define ROWS %d\n#define LINES %d\n",
        kernel_memory_type(dtype), kernel_memory_type(wide), r->gathered, r->rows, r->lines);
    text_add(out, "#define PACKED %d\n#define PACKED_X %d\n#define RAGGED %d\n%s%s%s%s", r->pack, r->pack_x,
             r->ragged, kernel_quantized_text, r->transpose ? rows_text : "", kernel_quantized_begin,
             r->transpose ? rows_body : columns_body);
    return true;
}

// Calling ----------------------------------------------------------------------------------------------------------

bool kernel_can_quantized_matmul(const struct call *c) {
    return kernel_can_quantize(c) &&
           (!call_args(c)[QMM_GATHERED] ||
            (c->in[c->inputs - 2]->dtype == ZL_UINT32 && c->in[c->inputs - 1]->dtype == ZL_UINT32));
}

struct quantized_sizes kernel_quantized_sizes(const struct call *c) {
    zl_array x = c->in[QMM_X], words = c->in[QMM_WORDS], scales = c->in[QMM_SCALES];
    const int64_t *arg = call_args(c);
    int last = x->ndim - 1;
    struct quantized_sizes s = {.x = x->offset,
                                .words = words->offset,
                                .scales = scales->offset,
                                .biases = arg[QMM_MODE] == QUANT_AFFINE ? c->in[QMM_BIASES]->offset : 0,
                                .m = x->dim[last - 1],
                                .k = x->dim[last],
                                .rows = words->dim[last - 1],
                                .row_words = words->dim[last],
                                .row_groups = scales->dim[last],
                                .lists = 1,
                                .matrices = 1};
    if (arg[QMM_GATHERED]) {
        s.first = c->in[c->inputs - 2]->offset;
        s.second = c->in[c->inputs - 1]->offset;
        s.lists = x->dim[0];
        s.matrices = words->dim[0];
    }
    return s;
}

// How many of `least` bytes may be read at once: a power of two that the sizes are multiples of.
static int32_t packed(int64_t most, int64_t a, int64_t b, int64_t c) {
    int32_t count = 1;
    while (2 * count <= most && (a | b | c) % (2 * count) == 0)
        count *= 2;
    return count;
}

// Fewer rows for threads where there are too few of them to fill a device.
static struct recipe recipe_of(const struct call *c, const struct quantized_sizes *s) {
    const int64_t *arg = call_args(c);
    zl_dtype dtype = (zl_dtype)c->in[QMM_X]->dtype;
    int64_t wide = s->rows * call_first(c)->size / MAX_OF(s->m * s->rows, 1) >= 1 << 12;
    struct recipe r = {.key = kernel_quantized_key(arg, c->in[QMM_SCALES]),
                       .dtype = (int32_t)dtype,
                       .transpose = (int32_t)arg[QMM_TRANSPOSE],
                       .gathered = (int32_t)arg[QMM_GATHERED],
                       .rows = 1,
                       .lines = 4,
                       .pack = 1,
                       .pack_x = 1,
                       .name = "qmm"};
    if (!r.transpose)
        return r;
    r.lines = s->m < 2 ? 1 : s->m < 3 ? 2 : s->m < 5 ? 4 : LINES_MOST;
    r.rows = r.lines > 2 ? 2 : wide ? 4 : 2;
    r.pack = packed(4, s->words, s->row_words, r.key.bits);
    r.pack_x = packed(MAX_OF(16 / (int64_t)zl_dtype_size(dtype), 1), s->x, s->k, 8);
    r.ragged = s->k % UNIT != 0;
    return r;
}

// Those that are not there stand for x, and are not read.
bool kernel_add_quantized(const struct kernel_place *p, struct kernel_call *k, const struct call *c) {
    bool affine = call_args(c)[QMM_MODE] == QUANT_AFFINE, gathered = call_args(c)[QMM_GATHERED];
    zl_array list[] = {c->in[QMM_X],
                       c->in[QMM_WORDS],
                       c->in[QMM_SCALES],
                       affine ? c->in[QMM_BIASES] : c->in[QMM_X],
                       gathered ? c->in[c->inputs - 2] : c->in[QMM_X],
                       gathered ? c->in[c->inputs - 1] : c->in[QMM_X]};
    for (size_t i = 0; i < COUNT(list); i++) {
        void *memory = kernel_reach(p, list[i]);
        if (!memory)
            return false;
        kernel_add_memory(k, memory);
    }
    return true;
}

bool kernel_quantized_matmul(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    struct quantized_sizes s = kernel_quantized_sizes(c);
    struct recipe r = recipe_of(c, &s);
    int64_t columns = y->dim[y->ndim - 1], each = r.transpose ? (int64_t)WARPS * r.rows : COLUMNS;
    struct kernel_call k;
    kernel_begin_call(&k);
    s.blocks = (columns + each - 1) / each;
    s.chunks = (s.m + r.lines - 1) / r.lines;
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    if (!kernel || !to || !kernel_add_quantized(p, &k, c))
        return false;
    kernel_add(&k, &s, sizeof s);
    return kernel_launch(p, kernel, s.blocks * s.chunks * (y->size / (s.m * columns)), &k);
}
