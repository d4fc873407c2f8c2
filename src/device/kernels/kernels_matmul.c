// kernels_matmul.c - products of matrices of any strides, in tiles that a group of threads shares.
//
// A group makes 64 x 64 elements of the result, each thread 4 x 4 of them, from pieces of 16 columns and rows that all of
// it has brought to local memory. Half floats are multiplied and summed in f32, int8 in int32.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { TILE = 64, DEEP = 16 };

struct recipe {
    int32_t dtype, wide;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

bool kernel_can_matmul(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype) || c->op == &op_matmul_int8;
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
    "KERNEL zl_kernel(GLOBAL OUT *y, GLOBAL const ITEM *a, i64 a_at, GLOBAL const ITEM *b, i64 b_at, idx m, "
    "idx n, idx k,\n"
    "                 i64 a_row, i64 a_col, i64 b_row, i64 b_col, idx tiles, idx tiles_n, AXES batch, i32 "
    "axes) {\n"
    "    LOCAL WIDE left[DEEP][TILE + 1], right[DEEP][TILE + 1];\n"
    "    idx number = GROUP / tiles, tile = GROUP % tiles;\n"
    "    idx row = tile / tiles_n * TILE, col = tile % tiles_n * TILE;\n"
    "    y += (i64)number * m * n;\n"
    "    a += a_at;\n"
    "    b += b_at;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = number / batch.dim[axis], at = number - next * batch.dim[axis];\n"
    "        a += (i64)at * batch.stride[0][axis];\n"
    "        b += (i64)at * batch.stride[1][axis];\n"
    "        number = next;\n"
    "    }\n"
    "    WIDE sum[4][4];\n"
    "    for (i32 i = 0; i < 4; i++)\n"
    "        for (i32 j = 0; j < 4; j++)\n"
    "            sum[i][j] = 0;\n"
    "    i32 my_row = THREAD / 16, my_col = THREAD % 16;\n"
    "    for (idx from = 0; from < k; from += DEEP) {\n" // neighbours in memory are read by neighbouring threads
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
    "                narrow(&item, &sum[i][j]);\n"
    "                y[(i64)r * n + c] = item;\n"
    "            }\n"
    "        }\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype;
    bool is_int = dtype == ZL_INT8;
    zl_dtype wide = is_int ? ZL_INT32 : tile_reduce_gives(dtype), gives = is_int ? ZL_INT32 : dtype;
    kernel_begin(out, w->dialect, w->r->wide);
    if (!kernel_element(out, tile_cast_kernel(wide, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(gives, wide), w->dialect, "narrow"))
        return false;
    text_add(out, "#define ITEM %s\n#define WIDE %s\n#define OUT %s\n", kernel_memory_type(dtype),
             kernel_memory_type(wide), kernel_memory_type(gives));
    if (is_int)
        text_add(out, "#define FMA(a, b, c) ((i32)((u32)(a) * (u32)(b) + (u32)(c)))\n");
    else
        text_add(out, "#define FMA zl_fma_%s\n", kernel_memory_type(wide));
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

bool kernel_matmul(const struct kernel_place *p, const struct call *c) {
    zl_array a = c->in[0], b = c->in[1], y = call_first(c);
    int64_t m = y->dim[y->ndim - 2], n = y->dim[y->ndim - 1], inner = a->dim[a->ndim - 1];
    int64_t tiles_n = (n + TILE - 1) / TILE, tiles = (m + TILE - 1) / TILE * tiles_n;
    struct kernel_layout batch;
    struct kernel_call k;
    kernel_begin_call(&k);
    lay_out_batch(&batch, a, b);
    if (batch.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "matmul: more than %d batch axes that cannot be joined: use zl_contiguous first",
                           KERNEL_AXES);
    struct recipe r = {a->dtype,
                       layout_is_wide(&batch) || batch.size * tiles > INT32_MAX || inner > INT32_MAX / 2,
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
    kernel_add_axes(&k, &batch, 3, r.wide);
    kernel_add_int(&k, batch.axes, false);
    return kernel_launch(p, kernel, batch.size * tiles, &k);
}
