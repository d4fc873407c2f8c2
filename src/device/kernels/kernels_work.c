// kernels_work.c - collects the arguments of one launch of a tile kernel. The width of indices is known when
// all of them are there: tables and integers are kept in 64 bits, and narrowed then.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"

#include <assert.h>
#include <string.h>

void work_open(struct kernel_work *w, const struct kernel_place *p, const char *what) {
    w->place = p;
    w->what = what;
    w->wide = w->failed = false;
    w->sizes = 0;
    w->numbers = 0;
    kernel_begin_call(&w->k);
}

// Notes that the last argument holds integers of the width of indices.
static void mark_numbers(struct kernel_work *w) {
    w->numbers |= (uint64_t)1 << (w->k.arguments - 1);
}

void work_int(struct kernel_work *w, int64_t number) {
    kernel_add_int(&w->k, number, true);
    mark_numbers(w);
}

void work_bytes(struct kernel_work *w, void *memory, size_t reach) {
    w->failed |= !memory && !w->place->batch; // arrays of a batch have no memory yet
    kernel_add_bytes(&w->k, memory, reach);
}

void work_memory(struct kernel_work *w, void *memory) {
    work_bytes(w, memory, KERNEL_ANY);
}

void work_place(struct kernel_work *w, zl_array x) {
    void *memory = kernel_reach(w->place, x);
    work_bytes(w, memory, kernel_bytes(x));
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
    w->wide |= kernel_layout_is_wide(l);
    kernel_add_table(&w->k, l, true);
    mark_numbers(w);
}

void work_rows(struct kernel_work *w, int rows, int columns, const int64_t *value, int step) {
    kernel_add_rows(&w->k, rows, columns, value, step, true);
    mark_numbers(w);
}

void work_sizes(struct kernel_work *w, int count, const int64_t *size) {
    assert(w->sizes + count <= (int)COUNT(w->size));
    for (int i = 0; i < count; i++) {
        w->size[w->sizes++] = size[i];
        w->wide |= size[i] > KERNEL_NARROW;
    }
}

static void narrow(struct kernel_call *k, uint64_t arguments) {
    for (; arguments; arguments &= arguments - 1) {
        struct kernel_argument *a = &k->argument[__builtin_ctzll(arguments)];
        char *to = k->room + ((const char *)a->value - k->room);
        a->bytes /= 2;
        for (size_t i = 0; i < a->bytes; i += sizeof(int32_t)) {
            int64_t number;
            memcpy(&number, to + 2 * i, sizeof number);
            memcpy(to + i, &(int32_t){(int32_t)number}, sizeof(int32_t));
        }
    }
}

bool work_run(struct kernel_work *w, const void *key, size_t bytes, kernel_maker *make) {
    const struct kernel_tiles *kernel = w->failed ? NULL : kernel_find_tiles(w->place, key, bytes, make, key);
    if (!w->wide)
        narrow(&w->k, w->numbers);
    return kernel && kernel_launch_tiles(w->place, kernel, &w->k, w->sizes, w->size);
}

// Files -----------------------------------------------------------------------------------------------------

// The texts are literals of the caller, and compared by their addresses.
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
