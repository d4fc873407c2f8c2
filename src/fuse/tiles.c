// tiles.c - builds pieces of the kernels that devices make from recipes: operands, runs of their elements,
// rows.
//
// Complex numbers are stored as their parts, so that runs of them are moved as floats are.

#include "fuse/fuse.h"
#include "tile/notation.h"

#include <stdio.h>

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

static int parts_of(zl_dtype dtype) {
    return dtype == ZL_COMPLEX64 ? 2 : 1;
}

static expr count_parts(zl_dtype dtype, expr elements) {
    int parts = parts_of(dtype);
    return parts == 1 ? elements : MUL(elements, tile_number(parts));
}

static struct tile_type part_type(zl_dtype dtype) {
    return dtype == ZL_COMPLEX64 ? f32 : tile_type_of(dtype);
}

struct name {
    char text[16];
};

static struct name name_of(const char *word, int number) {
    struct name name;
    snprintf(name.text, sizeof name.text, "%s%d", word, number);
    return name;
}

void fuse_begin(const char *kernel, bool wide) {
    if (tile_begin(kernel))
        tile_current()->index_bits = wide ? 64 : 32;
}

expr fuse_symbol(const char *word, int number, int64_t least, int64_t divisor) {
    struct name name = name_of(word, number);
    return tile_name_value(tile_symbol(number < 0 ? word : name.text, least, INT64_MAX, divisor),
                           TILE_SYMBOL);
}

// Operands --------------------------------------------------------------------------------------------------

struct fuse_operand fuse_declare(const char *word, int number, zl_dtype dtype, expr elements,
                                 bool is_output) {
    expr size = count_parts(dtype, elements);
    return (struct fuse_operand){
        dtype, tile_parameter_buffer(name_of(word, number).text, part_type(dtype), 1, &size, is_output),
        NULL};
}

struct fuse_operand fuse_declare_value(const char *word, int number, zl_dtype dtype) {
    struct name name = name_of(word, number);
    if (parts_of(dtype) == 1) {
        const struct tile_name *scalar = tile_parameter_scalar(name.text, tile_type_of(dtype));
        return (struct fuse_operand){dtype, NULL, tile_name_value(scalar, TILE_SCALAR)};
    }
    expr size = tile_number(2);
    struct fuse_operand parts = {dtype, tile_parameter_table(name.text, f32, 1, &size), NULL};
    return (struct fuse_operand){dtype, NULL, fuse_read(&parts, tile_number(0))};
}

struct fuse_operand fuse_run(const char *word, int number, zl_dtype dtype, int count) {
    expr size = tile_number((int64_t)count * parts_of(dtype));
    return (struct fuse_operand){
        dtype, tile_alloc(name_of(word, number).text, part_type(dtype), TILE_REGISTER, 1, &size), NULL};
}

expr fuse_read(const struct fuse_operand *o, expr at) {
    if (o->value)
        return o->value;
    expr first = count_parts(o->dtype, at);
    expr re = tile_load(o->buffer, 1, &first, NULL, NULL);
    if (parts_of(o->dtype) == 1)
        return re;
    expr second = ADD(first, tile_number(1));
    return COMPLEX(re, tile_load(o->buffer, 1, &second, NULL, NULL));
}

void fuse_put(const struct fuse_operand *o, expr at, expr value) {
    bool is_whole = parts_of(o->dtype) == 1;
    expr first = count_parts(o->dtype, at);
    tile_store(o->buffer, 1, &first, is_whole ? value : RE(value), NULL);
    if (is_whole)
        return;
    expr second = ADD(first, tile_number(1));
    tile_store(o->buffer, 1, &second, IM(value), NULL);
}

void fuse_move(const struct fuse_operand *to, expr to_at, const struct fuse_operand *from, expr from_at,
               int count) {
    int64_t parts = (int64_t)count * parts_of(to->dtype);
    expr turns = tile_number(parts);
    const struct tile_name *name = tile_index("j", turns);
    expr j = parts > 1 ? tile_name_value(name, TILE_INDEX) : tile_number(0),
         to_place = ADD(count_parts(to->dtype, to_at), j),
         from_place = ADD(count_parts(from->dtype, from_at), j);
    if (parts > 1)
        tile_open_for(name, NULL, turns, NULL, TILE_UNROLLED);
    tile_store(to->buffer, 1, &to_place, tile_load(from->buffer, 1, &from_place, NULL, NULL), NULL);
    if (parts > 1)
        tile_close();
}

// Variables -------------------------------------------------------------------------------------------------

// Assigns a value to a variable of its own, or to two if it is complex. Otherwise each statement that uses
// the expression would compute it again, with its loads.
static expr keep(expr value) {
    if (!value || !tile_type_is_complex(value->type))
        return tile_variable("row", value);
    expr re = tile_variable("re", RE(value));
    return COMPLEX(re, tile_variable("im", IM(value)));
}

const struct tile_buffer *fuse_table(const char *text, int rows, int columns) {
    return tile_parameter_table(text, tile_index_type(), 2,
                                (const expr[]){tile_number(rows), tile_number(columns)});
}

expr fuse_entry(const struct tile_buffer *table, int row, expr column) {
    return tile_load(table, 2, (const expr[]){tile_number(row), column}, NULL, NULL);
}

void fuse_walk(const struct tile_buffer *table, expr inner, expr which, int count, expr *place) {
    for (int k = 0; k < count; k++)
        place[k] = place[k] ? tile_variable("place", place[k]) : NULL;
    tile_walk(table, inner, which, count, place);
}

// Rows ------------------------------------------------------------------------------------------------------

void fuse_rows(const struct fuse_recipe *r, int begin, int end, const expr *input, expr *value, bool keeps,
               expr *rare) {
    for (int k = begin; k < end; k++) {
        const struct fuse_op *row = &r->row[k];
        expr arg[4] = {NULL};
        for (int j = 0; j < row->inputs; j++)
            arg[j] = fuse_is_row(row->arg[j]) ? value[row->arg[j]] : input[row->arg[j] & ~FUSE_INPUT];
        value[k] = fuse_apply(row, arg, rare);
        if (keeps)
            value[k] = keep(value[k]);
    }
}
