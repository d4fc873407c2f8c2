// kernels_matmul.c - products of matrices of any strides, also of those that indices choose and of parts of the inner axis, in tiles
// that a group of threads shares.
//
// A group makes 64 x 64 elements of the result, each thread 4 x 4 of them, from pieces of 16 columns and rows that all of
// it has brought to local memory. Half floats and fp8 are multiplied and summed in f32, int8 in int32. What a product is added to is
// copied to where the result goes, and read there.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { TILE = 64, DEEP = 16 };

enum kind { BATCH, CHOSEN, PARTS }; // all of a batch; those that indices say; parts of the inner axis

struct recipe {
    int32_t dtype, out, wide, kind, index; // dtype: uint8 is fp8; index: dtype of the indices
    int32_t is_scaled, adds;               // the product; to beta times what the result holds
    char name[8];                          // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

bool kernel_can_matmul(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype) || c->op == &op_matmul_int8 || c->op == &op_matmul_fp8;
}

static const char text[] =
    "#define TILE 64\n"
    "#define DEEP 16\n"
    "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
    "FN WIDE load(GLOBAL const ITEM *from) {\n"
    "    ITEM item = *from;\n"
    "    WIDE value;\n"
    "    widen(&value, &item);\n"
    "    return value;\n"
    "}\n\n"
    "FN i64 nearest(INDEX given, i64 count) {\n"
    "    i64 place = IS_LARGE(given) ? count - 1 : (i64)given;\n"
    "    place += place < 0 ? count : 0;\n"
    "    return place < 0 ? 0 : place < count ? place : count - 1;\n"
    "}\n\n"
    "KERNEL zl_kernel(GLOBAL OUT *y, GLOBAL const ITEM *a, i64 a_at, GLOBAL const ITEM *b, i64 b_at, idx m, "
    "idx n, idx k,\n"
    "                 i64 a_row, i64 a_col, i64 b_row, i64 b_col, idx tiles, idx tiles_n, AXES batch, i32 "
    "axes,\n"
    "                 GLOBAL const INDEX *first, i64 first_at, GLOBAL const INDEX *second, i64 second_at, "
    "i64 a_step, i64 b_step,\n"
    "                 i64 a_count, i64 b_count, f32 scale, f32 beta) {\n"
    "    LOCAL WIDE left[DEEP][TILE + 1], right[DEEP][TILE + 1];\n"
    "    idx number = GROUP / tiles, tile = GROUP % tiles;\n"
    "    idx row = tile / tiles_n * TILE, col = tile % tiles_n * TILE;\n"
    "    y += (i64)number * m * n;\n"
    "    a += a_at;\n"
    "    b += b_at;\n"
    "    i64 a_place = 0, b_place = 0;\n"
    "    idx begin = 0;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = number / batch.dim[axis], at = number - next * batch.dim[axis];\n"
    "        a_place += (i64)at * batch.stride[0][axis];\n"
    "        b_place += (i64)at * batch.stride[1][axis];\n"
    "        number = next;\n"
    "    }\n"
    "    if (KIND == 1) {\n"
    "        a_place = nearest(first[first_at + a_place], a_count) * a_step;\n"
    "        b_place = nearest(second[second_at + b_place], b_count) * b_step;\n"
    "    } else if (KIND == 2) {\n" // from one number of a pair to the other
    "        i64 end = (i64)first[first_at + a_place + a_step];\n"
    "        begin = (idx)nearest(first[first_at + a_place], k + 1);\n"
    "        k = end < k ? (idx)end : k;\n"
    "        a_place = b_place = 0;\n"
    "    }\n"
    "    a += a_place;\n"
    "    b += b_place;\n"
    "    WIDE sum[4][4];\n"
    "    for (i32 i = 0; i < 4; i++)\n"
    "        for (i32 j = 0; j < 4; j++)\n"
    "            sum[i][j] = 0;\n"
    "    i32 my_row = THREAD / 16, my_col = THREAD % 16;\n"
    "    for (idx from = begin; from < k; from += DEEP) {\n" // neighbours in memory are read by neighbouring threads
    "        for (i32 e = THREAD; e < TILE * DEEP; e += THREADS) {\n"
    "            i32 r = a_col == 1 ? e / DEEP : e % TILE, d = a_col == 1 ? e % DEEP : e / TILE;\n"
    "            bool inside = row + r < m && from + d < k;\n"
    "            left[d][r] = inside ? load(a + (i64)(row + r) * a_row + (i64)(from + d) * a_col) : 0;\n"
    "            i32 c = b_row == 1 ? e / DEEP : e % TILE, p = b_row == 1 ? e % DEEP : e / TILE;\n"
    "            inside = col + c < n && from + p < k;\n"
    "            right[p][c] = inside ? load(b + (i64)(from + p) * b_row + (i64)(col + c) * b_col) : 0;\n"
    "        }\n"
    "        BARRIER;\n"
    "        for (i32 d = 0; d < DEEP; d++)\n"
    "            for (i32 i = 0; i < 4; i++)\n"
    "                for (i32 j = 0; j < 4; j++)\n"
    "                    sum[i][j] = FMA(left[d][my_row + 16 * i], right[d][my_col + 16 * j], sum[i][j]);\n"
    "        BARRIER;\n"
    "    }\n"
    "    for (i32 i = 0; i < 4; i++)\n"
    "        for (i32 j = 0; j < 4; j++) {\n"
    "            idx r = row + my_row + 16 * i, c = col + my_col + 16 * j;\n"
    "            if (r < m && c < n) {\n"
    "                OUT item;\n"
    "                WIDE value = ADDED(SCALED(sum[i][j]), y + ((i64)r * n + c));\n"
    "                narrow(&item, &value);\n"
    "                y[(i64)r * n + c] = item;\n"
    "            }\n"
    "        }\n"
    "}\n";

// widen(to, from): an element as it is multiplied.
static bool write_widen(struct text *out, const struct writer *w, zl_dtype wide) {
    if (w->r->dtype != ZL_UINT8)
        return kernel_element(out, tile_cast_kernel(wide, (zl_dtype)w->r->dtype), w->dialect, "widen");
    text_add(out, "%sFN void widen(f32 *to, const u8 *from) { *to = fp8_number(*from); }\n", kernel_fp8_text);
    return true;
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype, gives = (zl_dtype)w->r->out;
    bool is_int = dtype == ZL_INT8, is_fp8 = dtype == ZL_UINT8;
    zl_dtype wide = is_int ? ZL_INT32 : is_fp8 ? ZL_FLOAT32 : tile_reduce_gives(dtype);
    kernel_begin(out, w->dialect, w->r->wide);
    if (!write_widen(out, w, wide) ||
        !kernel_element(out, tile_cast_kernel(gives, wide), w->dialect, "narrow"))
        return false;
    text_add(out, "#define ITEM %s\n#define WIDE %s\n#define OUT %s\n", kernel_memory_type(dtype),
             kernel_memory_type(wide), kernel_memory_type(gives));
    if (is_int)
        text_add(out, "#define FMA(a, b, c) ((i32)((u32)(a) * (u32)(b) + (u32)(c)))\n");
    else
        text_add(out, "#define FMA zl_fma_%s\n", kernel_memory_type(wide));
    text_add(out, "#define SCALED(x) %s\n#define ADDED(x, at) %s\n",
             w->r->is_scaled ? "((x) * scale)" : "(x)", w->r->adds ? "((x) + beta * load(at))" : "(x)");
    text_add(out, "#define KIND %d\n#define INDEX %s\n#define IS_LARGE(x) %s\n", w->r->kind,
             kernel_memory_type((zl_dtype)w->r->index), w->r->index == ZL_UINT64 ? "(x >> 63 != 0)" : "0");
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

static void lay_out_batch(struct kernel_layout *l, zl_array a, zl_array b) {
    layout_begin(l, 2);
    for (int i = 0; i < a->ndim - 2; i++)
        layout_push(l, a->dim[i], (const int64_t[]){array_stride(a)[i], array_stride(b)[i]});
}

static bool add_matrix(struct kernel_call *k, const struct kernel_place *p, zl_array x, void *other) {
    void *memory = x->size ? kernel_reach(p, x) : other;
    kernel_add_memory(k, memory);
    kernel_add_int(k, x->offset, true);
    return memory;
}

static void add_strides(struct kernel_call *k, zl_array x) {
    kernel_add_int(k, array_stride(x)[x->ndim - 2], true);
    kernel_add_int(k, array_stride(x)[x->ndim - 1], true);
}

// A product of which batch says what differs from one to the next.
struct product {
    enum kind kind;
    struct kernel_layout batch;
    zl_array a, b, y, first,
        second; // first, second: of indices; of a BATCH the matrices, which are not read as such
    int64_t a_step, b_step, a_count, b_count;
};

static bool multiply(const struct kernel_place *p, const struct call *c, const struct product *f) {
    zl_array a = f->a, b = f->b, y = f->y;
    int64_t m = y->dim[y->ndim - 2], n = y->dim[y->ndim - 1], inner = a->dim[a->ndim - 1];
    int64_t tiles_n = (n + TILE - 1) / TILE, tiles = (m + TILE - 1) / TILE * tiles_n;
    struct kernel_call k;
    kernel_begin_call(&k);
    if (f->batch.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d batch axes that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES);
    const int64_t *arg = call_args(c);
    bool adds = c->op == &op_addmm, is_fp8 = c->op == &op_matmul_fp8;
    float scale = adds || is_fp8 ? (float)op_arg_double(arg[adds ? (int)ADDMM_ALPHA : (int)FP8_SCALE]) : 1;
    float beta = adds ? (float)op_arg_double(arg[ADDMM_BETA]) : 0;
    struct recipe r = {a->dtype,
                       y->dtype,
                       layout_is_wide(&f->batch) || f->batch.size * tiles > INT32_MAX ||
                           inner > INT32_MAX / 2,
                       (int32_t)f->kind,
                       f->kind == BATCH ? ZL_INT32 : f->first->dtype,
                       adds || is_fp8,
                       beta != 0,
                       "matmul"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    if (!kernel || !to || !add_matrix(&k, p, a, to) || !add_matrix(&k, p, b, to))
        return false;
    kernel_add_int(&k, m, r.wide);
    kernel_add_int(&k, n, r.wide);
    kernel_add_int(&k, inner, r.wide);
    add_strides(&k, a);
    add_strides(&k, b);
    kernel_add_int(&k, tiles, r.wide);
    kernel_add_int(&k, tiles_n, r.wide);
    kernel_add_axes(&k, &f->batch, 3, r.wide);
    kernel_add_int(&k, f->batch.axes, false);
    if (!add_matrix(&k, p, f->first, to) || !add_matrix(&k, p, f->second, to))
        return false;
    const int64_t rest[] = {f->a_step, f->b_step, f->a_count, f->b_count};
    for (size_t i = 0; i < COUNT(rest); i++)
        kernel_add_int(&k, rest[i], true);
    kernel_add(&k, &scale, sizeof scale);
    kernel_add(&k, &beta, sizeof beta);
    return kernel_launch(p, kernel, f->batch.size * tiles, &k);
}

// What a call of addmm adds is where its result goes, unless beta is 0.
static bool bring_added(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    return op_arg_double(call_args(c)[ADDMM_BETA]) == 0 ||
           kernel_stretch_out(p, c->in[2], y->ndim, y->dim, kernel_reach(p, y));
}

bool kernel_matmul(const struct kernel_place *p, const struct call *c) {
    struct product f = {.kind = BATCH,
                        .a = c->in[0],
                        .b = c->in[1],
                        .y = call_first(c),
                        .first = c->in[0],
                        .second = c->in[1]};
    lay_out_batch(&f.batch, f.a, f.b);
    return (c->op != &op_addmm || bring_added(p, c)) && multiply(p, c, &f);
}

// Chosen ------------------------------------------------------------------------------------------------------------

bool kernel_can_choose(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return kernel_can_matmul(c) && (c->inputs < 4 || c->in[2]->dtype == c->in[3]->dtype);
}

bool kernel_gather_mm(const struct kernel_place *p, const struct call *c) {
    zl_array first = c->in[2], second = c->in[3];
    struct product f = {.kind = CHOSEN,
                        .a = c->in[0],
                        .b = c->in[1],
                        .y = call_first(c),
                        .first = first,
                        .second = second,
                        .a_step = array_stride(c->in[0])[0],
                        .b_step = array_stride(c->in[1])[0],
                        .a_count = c->in[0]->dim[0],
                        .b_count = c->in[1]->dim[0]};
    layout_begin(&f.batch, 2);
    for (int i = 0; i < first->ndim; i++)
        layout_push(&f.batch, first->dim[i],
                    (const int64_t[]){array_stride(first)[i], array_stride(second)[i]});
    return multiply(p, c, &f);
}

bool kernel_segmented_mm(const struct kernel_place *p, const struct call *c) {
    zl_array parts = c->in[2];
    struct product f = {.kind = PARTS,
                        .a = c->in[0],
                        .b = c->in[1],
                        .y = call_first(c),
                        .first = parts,
                        .second = parts,
                        .a_step = array_stride(parts)[parts->ndim - 1]};
    layout_begin(&f.batch, 2);
    for (int i = 0; i < parts->ndim - 1; i++)
        layout_push(&f.batch, parts->dim[i], (const int64_t[]){array_stride(parts)[i], 0});
    return multiply(p, c, &f);
}
