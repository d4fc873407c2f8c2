// gather.c - commands that find elements by index: gathers and scatters of the TIU and of DMA, compaction by
// a mask, sorting.

#include "bm1690/element.h"

#include <stdlib.h>

run_function run_gather_columns, run_gather_rows, run_dma_gather, run_dma_scatter, run_filter, run_sort;

static uint8_t *element(const struct view *v, int n, int c, int h, int w) {
    return view_row(v, n, c, h) + w * v->stride[3] * v->size;
}

static bool check_index(struct command *command, int64_t index, int64_t count) {
    return (index >= 0 && index < count) ||
           command_refuse(command, "index_addr", "has the index %lld; the table has %lld elements",
                          (long long)index, (long long)count);
}

static bool check_lane(struct command *command, const char *name, int lane, int right) {
    return lane == right ||
           command_refuse(command, name, "begins in lane %d; it is to begin in lane %d", lane, right);
}

static enum bm1690_dtype dtype_named(const struct command *command, const char *name) {
    return (enum bm1690_dtype)command_value(command, name)->i;
}

// Of the TIU ------------------------------------------------------------------------------------------------

// The operands of a lookup: a table and an index, each shared by all lanes or separate per lane. For a
// scatter, the table is the result.
struct lookup {
    struct view table, index;
    const struct view *out;
    bool own, repeats, scatters;
};

static bool find_lookup(struct command *command, struct lookup *k, struct dims table, struct dims index,
                        enum bm1690_layout layout) {
    uint32_t address = (uint32_t)command_value(command, "param_addr")->u,
             at = (uint32_t)command_value(command, "index_addr")->u;
    int lane = k->out->lane;
    if (k->repeats)
        table.c = MIN_OF(table.c, BM1690_LANE_COUNT - lane);
    if (!operand_local(command, &k->table, "param_addr", address, layout, table,
                       dtype_named(command, "dtype"), BM1690_READ) ||
        !operand_local(command, &k->index, "index_addr", at, k->own ? BM1690_TENSOR : BM1690_COLUMN, index,
                       dtype_named(command, "index_dtype"), BM1690_READ))
        return false;
    if (k->repeats)
        k->table.stride[1] = 0; // every lane has it at the same place
    if (at % BM1690_VECTOR_BYTES)
        return command_refuse(command, "index_addr", "is 0x%x; it is to be a multiple of %d bytes", at,
                              BM1690_VECTOR_BYTES);
    return check_lane(command, "param_addr", k->table.lane, lane) &&
           check_lane(command, "index_addr", k->index.lane, k->own ? lane : 0);
}

static bool move_column(struct command *command, const struct lookup *k, int n, int c, int w) {
    int64_t index = element_load_int(k->own ? element(&k->index, n, c, 0, w) : element(&k->index, 0, w, 0, 0),
                                     k->index.dtype);
    int batch = k->own ? 0 : n;
    if (!check_index(command, index, k->scatters ? k->out->dim.w : k->table.dim.w))
        return false;
    if (k->scatters)
        memcpy(element(k->out, n, c, 0, (int)index), element(&k->table, batch, c, 0, w),
               (size_t)k->out->size);
    else
        memcpy(element(k->out, n, c, 0, w), element(&k->table, batch, c, 0, (int)index),
               (size_t)k->out->size);
    return true;
}

bool run_gather_columns(struct command *command) {
    struct lookup k = {.out = command_operand(command, 0),
                       .own = command_has(command, "is_param_repeated"),
                       .repeats = command_value(command, "is_param_repeated")->i != 0,
                       .scatters = command->operation == SCATTER};
    struct dims d = k.out->dim;
    int width = (int)command_value(command, "param_w")->i, count = k.scatters ? width : d.w;
    if (d.h != 1)
        return command_refuse(command, "shape", "has %d rows; it is to have one", d.h);
    if (!find_lookup(command, &k, (struct dims){k.own ? 1 : d.n, d.c, 1, width},
                     k.own ? (struct dims){d.n, d.c, 1, count} : (struct dims){1, count, 1, 1},
                     BM1690_TENSOR))
        return false;
    for (int n = 0; !command->core->counts_only && n < d.n; n++)
        for (int c = 0; c < d.c; c++)
            for (int w = 0; w < count; w++)
                if (!move_column(command, &k, n, c, w))
                    return false;
    return true;
}

// Gathers whole rows, each of which begins at a multiple of 64 bytes.
bool run_gather_rows(struct command *command) {
    struct lookup k = {.out = command_operand(command, 0),
                       .own = true,
                       .repeats = command_value(command, "is_param_repeated")->i != 0,
                       .scatters = command->operation == SCATTER};
    struct dims d = k.out->dim;
    int rows = (int)command_value(command, "param_h")->i, count = k.scatters ? rows : d.h;
    if (!find_lookup(command, &k, (struct dims){1, d.c, rows, d.w}, (struct dims){d.n, d.c, count, 1},
                     BM1690_LINE_ALIGNED))
        return false;
    for (int n = 0; !command->core->counts_only && n < d.n; n++)
        for (int c = 0; c < d.c; c++)
            for (int h = 0; h < count; h++) {
                int64_t index = element_load_int(element(&k.index, n, c, h, 0), k.index.dtype);
                if (!check_index(command, index, k.scatters ? d.h : rows))
                    return false;
                memcpy(element(k.out, n, c, k.scatters ? (int)index : h, 0),
                       element(&k.table, 0, c, k.scatters ? h : (int)index, 0),
                       (size_t)d.w * (size_t)k.out->size);
            }
    return true;
}

// Of DMA ----------------------------------------------------------------------------------------------------

struct rows {
    struct view from, index;
    const struct view *to;
    bool adds;
};

static bool find_rows(struct command *command, struct rows *k, int count, int indices) {
    struct dims d = k->to->dim;
    bool is_local = command->operation == LOCAL_SOURCE;
    if (d.n != 1)
        return command_refuse(command, "shape", "has %d batches; it is to have one", d.n);
    return operand_either(command, &k->from, "param_addr", is_local, (struct dims){1, d.c, count, d.w},
                          "param_stride", k->to->dtype) &&
           operand_either(command, &k->index, "index_addr", command_value(command, "index_is_local")->i != 0,
                          (struct dims){1, d.c, indices, 1}, "index_stride", BM1690_UINT32);
}

// Fills each row whose index lies outside the table with the constant C.
bool run_dma_gather(struct command *command) {
    struct rows k = {.to = command_operand(command, 0)};
    struct dims d = k.to->dim;
    int count = (int)command_value(command, "param_h")->i;
    uint32_t fill = command_value(command, "C")->word;
    if (!find_rows(command, &k, count, d.h))
        return false;
    for (int c = 0; !command->core->counts_only && c < d.c; c++)
        for (int h = 0; h < d.h; h++) {
            int64_t index = element_load_int(element(&k.index, 0, c, h, 0), BM1690_UINT32);
            for (int w = 0; w < d.w; w++)
                memcpy(element(k.to, 0, c, h, w),
                       index < count ? element(&k.from, 0, c, (int)index, w) : (const uint8_t *)&fill,
                       (size_t)k.to->size);
        }
    return true;
}

static void add_element(uint8_t *to, const uint8_t *from, enum bm1690_dtype dtype) {
    if (element_is_float(dtype))
        element_result(to, dtype, element_operand(to, dtype) + element_operand(from, dtype));
    else
        element_store_int(to, dtype, element_load_int(to, dtype) + element_load_int(from, dtype));
}

bool run_dma_scatter(struct command *command) {
    struct rows k = {.to = command_operand(command, 0),
                     .adds = command_value(command, "inplace_add")->i != 0};
    struct dims d = k.to->dim;
    int count = (int)command_value(command, "param_h")->i;
    if (!find_rows(command, &k, count, count))
        return false;
    for (int c = 0; !command->core->counts_only && c < d.c; c++)
        for (int h = 0; h < count; h++) {
            int64_t index = element_load_int(element(&k.index, 0, c, h, 0), BM1690_UINT32);
            for (int w = 0; index < d.h && w < d.w; w++)
                if (k.adds)
                    add_element(element(k.to, 0, c, (int)index, w), element(&k.from, 0, c, h, w),
                                k.to->dtype);
                else
                    memcpy(element(k.to, 0, c, (int)index, w), element(&k.from, 0, c, h, w),
                           (size_t)k.to->size);
        }
    return true;
}

// Compaction ------------------------------------------------------------------------------------------------

// Keeps the elements whose mask is not zero, in order. Without a mask, keeps the positions of the nonzero
// elements, counted from base_idx.
bool run_filter(struct command *command) {
    const struct view *from = command_operand(command, 1);
    bool has_mask = command_has(command, "mask_addr");
    struct view mask, to = *command_operand(command, 0);
    static const uint8_t zero[4];
    uint32_t place = (uint32_t)command_value(command, "base_idx")->u, kept = 0;
    if (has_mask &&
        !operand_either(command, &mask, "mask_addr", command_value(command, "mask_in_lmem")->i != 0,
                        from->dim, "", dtype_named(command, "mask_dtype")))
        return false;
    const struct view *tested = has_mask ? &mask : from;
    for (int n = 0; !command->core->counts_only && n < from->dim.n; n++)
        for (int c = 0; c < from->dim.c; c++)
            for (int h = 0; h < from->dim.h; h++)
                for (int w = 0; w < from->dim.w; w++, place++)
                    if (memcmp(element(tested, n, c, h, w), zero, (size_t)tested->size) != 0) {
                        memcpy(to.data + (size_t)kept++ * (size_t)to.size,
                               has_mask ? (const void *)element(from, n, c, h, w) : &place, (size_t)to.size);
                    }
    command->core->filtered = kept;
    return true;
}

// Sorting ---------------------------------------------------------------------------------------------------

struct item {
    uint32_t word, place;
    double key; // in ascending order
};

static int compare_items(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->place < y->place ? -1 : x->place > y->place;
}

// Sorts a row and keeps its first `kept` elements; the sort is stable. `place`, unless NULL, receives the
// elements' positions in the row.
static void sort_row(struct item *item, const struct view *from, int row, bool descends,
                     const struct view *value, const struct view *place) {
    int count = from->dim.w, kept = value->dim.w;
    for (int i = 0; i < count; i++) {
        const uint8_t *x = element(from, 0, 0, row, i);
        double key = element_is_float(from->dtype) ? (double)element_load(x, from->dtype)
                                                   : (double)element_load_int(x, from->dtype);
        item[i] = (struct item){.place = (uint32_t)i, .key = descends ? -key : key};
        memcpy(&item[i].word, x, 4);
    }
    qsort(item, (size_t)count, sizeof *item, compare_items);
    for (int i = 0; i < kept; i++) {
        memcpy(element(value, 0, 0, row, i), &item[i].word, 4);
        if (place)
            memcpy(element(place, 0, 0, row, i), &item[i].place, 4);
    }
}

bool run_sort(struct command *command) {
    bool has_places = command->operation == SORT_PLACES,
         descends = command_value(command, "descended")->i != 0;
    const struct view *value = command_operand(command, 0),
                      *place = has_places ? command_operand(command, 1) : NULL,
                      *from = command_operand(command, has_places ? 2 : 1);
    if (value->dim.w > from->dim.w)
        return command_refuse(command, "K", "is %d, more than the %d elements", value->dim.w, from->dim.w);
    if (command->core->counts_only)
        return true;
    struct item *item = memory_alloc(sizeof *item * (size_t)from->dim.w);
    for (int row = 0; item && row < from->dim.h; row++)
        sort_row(item, from, row, descends, value, place);
    memory_free(item);
    return item != NULL;
}
