// kernels_work.c - one launch of a tile kernel while its arguments are collected. How wide indices are is known when all of them are
// there: tables and numbers are written then.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"

#include <assert.h>

void work_open(struct kernel_work *w, const struct kernel_place *p, const char *what) {
    w->place = p;
    w->what = what;
    w->wide = w->failed = false;
    w->parts = w->sizes = 0;
}

static void add(struct kernel_work *w, struct work_part part) {
    assert(w->parts < (int)COUNT(w->part));
    w->part[w->parts++] = part;
}

void work_value(struct kernel_work *w, const void *value, size_t bytes) {
    add(w, (struct work_part){.kind = WORK_VALUE, .value = value, .bytes = bytes});
}

void work_int(struct kernel_work *w, int64_t number) {
    add(w, (struct work_part){.kind = WORK_INT, .number = number});
}

void work_bytes(struct kernel_work *w, void *memory, size_t reach) {
    w->failed |= !memory && !w->place->batch; // of a batch nothing has memory yet
    add(w, (struct work_part){.kind = WORK_MEMORY, .memory = memory, .bytes = reach});
}

void work_memory(struct kernel_work *w, void *memory) {
    work_bytes(w, memory, KERNEL_ANY);
}

void work_place(struct kernel_work *w, zl_array x) {
    void *memory = kernel_reach(w->place, x);
    work_bytes(w, memory, x->storage ? x->storage->bytes : 0);
}

void work_result(struct kernel_work *w, zl_array x) {
    work_place(w, x);
    w->wide |= kernel_elements(x) > KERNEL_NARROW;
}

void work_array(struct kernel_work *w, zl_array x) {
    work_place(w, x);
    WORK_SIZES(w, kernel_elements(x), x->offset);
}

void work_table(struct kernel_work *w, const struct kernel_layout *l) {
    w->failed |= !kernel_check_axes(l, w->what);
    w->wide |= layout_is_wide(l);
    add(w, (struct work_part){.kind = WORK_TABLE, .value = l});
}

void work_rows(struct kernel_work *w, int rows, int columns, const int64_t *value, int step) {
    add(w, (struct work_part){
               .kind = WORK_ROWS, .rows = rows, .columns = columns, .value = value, .number = step});
}

void work_sizes(struct kernel_work *w, int count, const int64_t *size) {
    assert(w->sizes + count <= (int)COUNT(w->size));
    for (int i = 0; i < count; i++) {
        w->size[w->sizes++] = size[i];
        w->wide |= size[i] > KERNEL_NARROW;
    }
}

static void add_argument(struct kernel_call *k, const struct work_part *a, bool wide) {
    switch (a->kind) {
    case WORK_VALUE: kernel_add(k, a->value, a->bytes); return;
    case WORK_INT: kernel_add_int(k, a->number, wide); return;
    case WORK_MEMORY: kernel_add_bytes(k, a->memory, a->bytes); return;
    case WORK_TABLE: kernel_add_table(k, a->value, wide); return;
    case WORK_ROWS: kernel_add_rows(k, a->rows, a->columns, a->value, (int)a->number, wide); return;
    }
}

bool work_run(struct kernel_work *w, const void *key, size_t bytes, kernel_maker *make) {
    struct kernel_call k;
    const struct kernel_tiles *kernel = w->failed ? NULL : kernel_find_tiles(w->place, key, bytes, make, key);
    if (!kernel)
        return false;
    kernel_begin_call(&k);
    for (int i = 0; i < w->parts; i++)
        add_argument(&k, &w->part[i], w->wide);
    return kernel_launch_tiles(w->place, kernel, &k, w->sizes, w->size);
}

// Files ------------------------------------------------------------------------------------------------------------

// Texts are the caller's own, and known by their addresses.
struct file_key {
    const char *name, *clauses;
    int64_t wide;
    int32_t clause[WORK_CLAUSES];
};

static void add_clause(struct text *out, char what, const struct file_key *key, const int32_t **next) {
    int bits = kernel_bits(key->wide), value = what == 'i' || what == 'b' ? bits : *(*next)++;
    if (what == 'i')
        text_add(out, "BITS=%d,INDEX=i%d", bits, bits);
    else if (what == 't')
        text_add(out, "%s", value == WORK_E4M3 ? "e4m3" : kernel_type((zl_dtype)value));
    else if (what == 'o')
        text_add(out, "%s", tile_op_name((enum tile_op)value));
    else
        text_add(out, "%d", value);
}

static struct tile_kernel *make_file(const void *data) {
    const struct file_key *key = data;
    const int32_t *next = key->clause;
    struct text out = {0};
    for (const char *at = key->clauses; *at; at++)
        if (*at == '%')
            add_clause(&out, *++at, key, &next);
        else
            text_bytes(&out, at, 1);
    struct tile_kernel *kernel = out.failed ? NULL : kernel_built_in(key->name, "%s", out.data);
    text_free(&out);
    return kernel;
}

bool work_file(struct kernel_work *w, const char *name, const char *clauses, int count,
               const int32_t *clause) {
    struct file_key key = {name, clauses, w->wide, {0}};
    assert(count <= WORK_CLAUSES);
    for (int i = 0; i < count; i++)
        key.clause[i] = clause[i];
    return work_run(w, &key, sizeof key, make_file);
}
