// kernels_transpose.c - copies whose elements are neighbours along one axis before and along another after: in tiles
// through local memory, so that neighbouring threads read and write neighbours. Where all lies in whole packs of 16 bytes, a
// thread turns a square of them in its registers, and only packs are moved.

#include "device/kernels/kernels.h"

enum {
    SIDE = 32,  // of a tile of elements
    PACKS = 16, // in a row of a tile of packs
    LEAST = 16, // elements along both axes from which it pays
};

struct recipe {
    int32_t bytes, wide, width; // width: elements of a pack; 1: there are none
    char name[16];              // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const char beginning[] =
    "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
    "KERNEL zl_kernel(GLOBAL ITEM *to, i64 to_at, GLOBAL const ITEM *from, i64 from_at, idx rows, idx cols, "
    "i64 to_row, i64 from_col,\n"
    "                 idx tiles_r, idx tiles_c, AXES s, i32 axes) {\n"
    "    LOCAL ROOM;\n"
    "    idx number = GROUP / (tiles_r * tiles_c), tile = GROUP % (tiles_r * tiles_c);\n"
    "    idx row = tile / tiles_c * SIDE, col = tile % tiles_c * SIDE;\n"
    "    to += to_at;\n"
    "    from += from_at;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = number / s.dim[axis], at = number - next * s.dim[axis];\n"
    "        to += (i64)at * s.stride[0][axis];\n"
    "        from += (i64)at * s.stride[1][axis];\n"
    "        number = next;\n"
    "    }\n";

static const char elements[] = "    i32 x = THREAD % 32, y = THREAD / 32;\n"
                               "    for (i32 j = y; j < 32; j += THREADS / 32)\n"
                               "        if (row + x < rows && col + j < cols)\n"
                               "            room[j][x] = from[(row + x) + (i64)(col + j) * from_col];\n"
                               "    BARRIER;\n"
                               "    for (i32 j = y; j < 32; j += THREADS / 32)\n"
                               "        if (row + j < rows && col + x < cols)\n"
                               "            to[(i64)(row + j) * to_row + (col + x)] = room[x][j];\n"
                               "}\n";

// Packs of neighbouring rows of packs change places, so that threads side by side meet different banks.
static const char packs[] = "    i32 x = THREAD % 16, y = THREAD / 16;\n"
                            "    if (row + x * WIDTH < rows && col + y * WIDTH < cols) {\n"
                            "        pack in[WIDTH], out[WIDTH];\n"
                            "        from += (row + x * WIDTH) + (i64)(col + y * WIDTH) * from_col;\n"
                            "        UNROLL for (i32 i = 0; i < WIDTH; i++)\n"
                            "            in[i] = *(GLOBAL const pack *)(from + i * from_col);\n"
                            "        UNROLL for (i32 i = 0; i < WIDTH; i++)\n"
                            "            UNROLL for (i32 j = 0; j < WIDTH; j++)\n"
                            "                out[i].e[j] = in[j].e[i];\n"
                            "        UNROLL for (i32 i = 0; i < WIDTH; i++)\n"
                            "            room[x * WIDTH + i][y ^ x] = out[i];\n"
                            "    }\n"
                            "    BARRIER;\n"
                            "    if (col + x * WIDTH < cols)\n"
                            "        UNROLL for (i32 i = 0; i < WIDTH; i++) {\n"
                            "            i32 r = y + 16 * i;\n"
                            "            if (row + r < rows)\n"
                            "                *(GLOBAL pack *)(to + (i64)(row + r) * to_row + (col + x * "
                            "WIDTH)) = room[r][x ^ r / WIDTH];\n"
                            "        }\n"
                            "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    const char *item = kernel_item_type((size_t)w->r->bytes);
    int width = w->r->width;
    text_add(out, "#define ITEM %s\n#define WIDTH %d\n", item, width);
    if (width > 1)
        text_add(out,
                 "#define SIDE (16 * WIDTH)\n#define ROOM pack room[SIDE][16]\ntypedef PACK(%s, %d) pack;\n",
                 item, width);
    else
        text_add(out, "#define SIDE 32\n#define ROOM ITEM room[32][33]\n");
    text_add(out, "%s%s", beginning, width > 1 ? packs : elements);
    return true;
}

enum { TO, FROM };

// The axis along which an operand has neighbours, if it is long enough; -1: there is none.
static int neighbours(const struct kernel_layout *l, int operand) {
    for (int i = l->axes - 1; i >= 0; i--)
        if (l->stride[operand][i] == 1 && l->dim[i] >= LEAST)
            return i;
    return -1;
}

bool kernel_is_transpose(const struct kernel_layout *l) {
    int row = neighbours(l, FROM), col = neighbours(l, TO);
    return row >= 0 && col >= 0 && row != col && l->stride[FROM][col] > 1 && l->axes - 2 <= KERNEL_AXES;
}

static bool begins_pack(const struct kernel_end *e, int width) {
    return e->at % width == 0 && (uintptr_t)e->memory % 16 == 0;
}

// Elements of a pack that all fits: 16 bytes of them, or 4 of single bytes, whose squares would be too large.
static int width_of(const struct kernel_layout *l, int row, int col, size_t bytes,
                    const struct kernel_end *to, const struct kernel_end *from) {
    int width = bytes == 1 ? 4 : 16 / (int)bytes;
    bool fits = l->dim[row] % width == 0 && l->dim[col] % width == 0 && begins_pack(to, width) &&
                begins_pack(from, width);
    for (int i = 0; i < l->axes; i++)
        fits = fits && (i == row || l->stride[FROM][i] % width == 0) &&
               (i == col || l->stride[TO][i] % width == 0);
    return fits ? width : 1;
}

bool kernel_transpose(const struct kernel_place *p, size_t bytes, const struct kernel_layout *l,
                      struct kernel_end to, struct kernel_end from) {
    int row = neighbours(l, FROM), col = neighbours(l, TO);
    struct recipe r = {(int32_t)bytes, layout_is_wide(l), width_of(l, row, col, bytes, &to, &from),
                       "transpose"};
    int64_t side = r.width > 1 ? PACKS * r.width : SIDE;
    int64_t tiles_r = (l->dim[row] + side - 1) / side, tiles_c = (l->dim[col] + side - 1) / side;
    struct kernel_layout batch;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&batch, 2);
    for (int i = 0; i < l->axes; i++)
        if (i != row && i != col)
            layout_push(&batch, l->dim[i], (const int64_t[]){l->stride[TO][i], l->stride[FROM][i]});
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    kernel_add_memory(&k, to.memory);
    kernel_add_int(&k, to.at, true);
    kernel_add_memory(&k, from.memory);
    kernel_add_int(&k, from.at, true);
    kernel_add_int(&k, l->dim[row], r.wide);
    kernel_add_int(&k, l->dim[col], r.wide);
    kernel_add_int(&k, l->stride[TO][row], true);
    kernel_add_int(&k, l->stride[FROM][col], true);
    kernel_add_int(&k, tiles_r, r.wide);
    kernel_add_int(&k, tiles_c, r.wide);
    kernel_add_axes(&k, &batch, 3, r.wide);
    kernel_add_int(&k, batch.axes, false);
    return kernel && to.memory && from.memory && kernel_launch(p, kernel, batch.size * tiles_r * tiles_c, &k);
}
