// kernels_attention_launch.c - the text that attention's kernels begin with, and their launch.

#include "device/kernels/kernels_attention.h"

#include <string.h>

struct recipe {
    int32_t dtype, mask;    // of numbers and of the mask; ZL_DTYPE_COUNT: there is none
    int32_t sinks, columns; // columns: of a thread
    char name[16];          // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const struct attention_text *text;
    const char *dialect;
};

// As in the text: where views begin, then their strides. Of the gradient: the result, and its cotangent.
struct sizes {
    int64_t q[5], k[5], v[5], y[5], g[5], mask[5];
    int64_t sink_at, sink_batch, heads, shared, queries, keys, size, width, blocks;
    float scale;
    int32_t causal;
};

// Text -------------------------------------------------------------------------------------------------------------

static const char begin_text[] =
    "#define ROWS 8\n"
    "#define LANES 32\n"
    "#define PIECE 64\n"
    "#define LEAST zl_f32_from(0xff7fffffu)\n"
    "struct zl_axes {\n"
    "    i64 q[5], k[5], v[5], y[5], g[5], mask[5];\n"
    "    i64 sink_at, sink_batch, heads, shared, queries, keys, size, width, blocks;\n"
    "    f32 scale;\n"
    "    i32 causal;\n"
    "};\n"
    ATTENTION_LOAD
    "FN void store(GLOBAL ITEM *to, f32 value) {\n"
    "    ITEM item;\n"
    "    narrow(&item, &value);\n"
    "    *to = item;\n"
    "}\n"
    "FN f32 power_of(f32 x) {\n"
    "    f32 value;\n"
    "    power(&value, &x);\n"
    "    return value;\n"
    "}\n";

#define MASKED "mask[s.mask[0] + batch * s.mask[1] + head * s.mask[2] + query * s.mask[3] + key * s.mask[4]]"

static void define_mask(struct text *out, const struct writer *w) {
    if (w->r->mask == ZL_DTYPE_COUNT)
        text_add(out, "#define MASK ITEM\n#define HIDE\n");
    else if (w->r->mask == ZL_BOOL)
        text_add(out, "#define MASK u8\n#define HIDE if (!" MASKED ") %s;\n", w->text->hide);
    else
        text_add(out, "#define MASK ITEM\n#define HIDE score += load(&" MASKED ");\n");
    text_add(out, "#define SINK %s\n", w->r->sinks ? w->text->sink : "");
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype;
    kernel_begin(out, w->dialect, true);
    if (!kernel_element(out, tile_cast_kernel(ZL_FLOAT32, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, ZL_FLOAT32), w->dialect, "narrow") ||
        !kernel_element(out, tile_row_kernel(TILE_EXP, ZL_FLOAT32, "v"), w->dialect, "power"))
        return false;
    text_add(out, "#define ITEM %s\n#define COLUMNS %d\n", kernel_memory_type(dtype), w->r->columns);
    define_mask(out, w);
    text_bytes(out, begin_text, (int)sizeof begin_text - 1);
    for (size_t i = 0; i < COUNT(w->text->part) && w->text->part[i]; i++)
        text_bytes(out, w->text->part[i], (int)strlen(w->text->part[i]));
    return true;
}

// Launches ---------------------------------------------------------------------------------------------------------

// Where a view begins and its strides; one element stands for all along an axis.
static void lay_out(int64_t *out, zl_array x) {
    out[0] = x ? x->offset : 0;
    for (int i = 0; x && i < 4; i++)
        out[i + 1] = x->dim[i] == 1 ? 0 : array_stride(x)[i];
}

static struct sizes sizes_of(const struct attention *a, int64_t rows) {
    struct sizes s = {.heads = a->q->dim[1],
                      .shared = a->q->dim[1] / a->k->dim[1],
                      .queries = a->q->dim[2],
                      .keys = a->k->dim[2],
                      .size = a->q->dim[3],
                      .width = a->v->dim[3],
                      .blocks = (rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS,
                      .scale = (float)a->scale,
                      .causal = a->causal};
    const zl_array view[] = {a->q, a->k, a->v, a->y, a->g, a->mask};
    int64_t *const place[] = {s.q, s.k, s.v, s.y, s.g, s.mask};
    for (size_t i = 0; i < COUNT(view); i++)
        lay_out(place[i], view[i]);
    if (a->sinks) {
        s.sink_at = a->sinks->offset;
        s.sink_batch = a->sinks->dim[0] == 1 ? 0 : array_stride(a->sinks)[0];
    }
    return s;
}

bool attention_launch(const struct kernel_place *p, const struct attention *a,
                      const struct attention_launch *l) {
    struct sizes s = sizes_of(a, l->rows);
    struct recipe r = {a->q->dtype, a->mask ? a->mask->dtype : ZL_DTYPE_COUNT, a->sinks && l->text->sink,
                       (int32_t)((l->columns + ATTENTION_LANES - 1) / ATTENTION_LANES)};
    struct kernel_call k;
    memcpy(r.name, l->text->name, MIN_OF(strlen(l->text->name), sizeof r.name - 1));
    kernel_begin_call(&k);
    void *kernel =
        kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, l->text, p->target->dialect});
    for (int i = 0; i < l->memories; i++) {
        void *reached = kernel_reach(p, l->memory[i] ? l->memory[i] : a->q); // what the text does not read
        if (!reached)
            return false;
        kernel_add_memory(&k, reached);
    }
    kernel_add(&k, &s, sizeof s);
    return kernel && kernel_launch_by(p, kernel, a->q->dim[0] * l->matrices * s.blocks,
                                      ATTENTION_ROWS * ATTENTION_LANES, &k);
}
