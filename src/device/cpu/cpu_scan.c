// cpu_scan.c - running sums and their like along an axis.
//
// Where another axis is contiguous, rows of it are combined with the row before by a row kernel. Else each
// line along the axis is a loop from element to element. Both go element by element in the same order, and
// give the same bits: 16-bit floats are kept in float on the way, and rounded where they are written.

#include "device/cpu/cpu.h"
#include "device/cpu/element_ops.h"
#include "op/ops.h"

#include <math.h>

enum { TO, FROM };

// Lines -----------------------------------------------------------------------------------------------------------

// n elements, at least one, from bytes and to bytes apart; row combines two.
typedef void scan_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, row_fn *row);

// kept: the type on the way; read and written: an element in that type, and back.
#define SCAN(name, type, kept, read, written, result)                                                  \
    static void scan_##name(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, \
                            row_fn *row) {                                                             \
        (void)row;                                                                                     \
        type element;                                                                                  \
        memcpy(&element, from, sizeof element);                                                        \
        memcpy(to, &element, sizeof element);                                                          \
        kept a = read(element);                                                                        \
        for (int64_t i = 1; i < n; i++) {                                                              \
            memcpy(&element, from + i * from_step, sizeof element);                                    \
            kept b = read(element);                                                                    \
            a = (kept)(result);                                                                        \
            element = written(a);                                                                      \
            memcpy(to + i * to_step, &element, sizeof element);                                        \
        }                                                                                              \
    }

#define SCAN_NUMBERS(name, type, kept, read, written, wide)                 \
    SCAN(name##_sum, type, kept, read, written, ADD_OF((wide)a, (wide)b))   \
    SCAN(name##_prod, type, kept, read, written, PROD_OF((wide)a, (wide)b)) \
    SCAN(name##_max, type, kept, read, written, MAX_WINS(a, b))             \
    SCAN(name##_min, type, kept, read, written, MIN_WINS(a, b))

SCAN_NUMBERS(u8, uint8_t, uint8_t, , , uint32_t)
SCAN_NUMBERS(u16, uint16_t, uint16_t, , , uint32_t)
SCAN_NUMBERS(u32, uint32_t, uint32_t, , , uint32_t)
SCAN_NUMBERS(u64, uint64_t, uint64_t, , , uint64_t)
SCAN_NUMBERS(i8, int8_t, int8_t, , , uint32_t)
SCAN_NUMBERS(i16, int16_t, int16_t, , , uint32_t)
SCAN_NUMBERS(i32, int32_t, int32_t, , , uint32_t)
SCAN_NUMBERS(i64, int64_t, int64_t, , , uint64_t)
SCAN_NUMBERS(f32, float, float, , , float)
SCAN_NUMBERS(f64, double, double, , , double)
SCAN_NUMBERS(f16, float16, float, half_to_float, half_from_float, float)
SCAN_NUMBERS(bf16, bfloat16, float, bfloat_to_float, bfloat_from_float, float)
SCAN(bool_or, uint8_t, uint8_t, , , OR_OF(a, b))
SCAN(bool_and, uint8_t, uint8_t, , , AND_OF(a, b))
SCAN(c64_sum, complex64, complex64, , , complex_add(a, b))
SCAN(c64_prod, complex64, complex64, , , complex_prod(a, b))
SCAN(c64_max, complex64, complex64, , , complex_max(a, b))
SCAN(c64_min, complex64, complex64, , , complex_min(a, b))

// Logarithms of sums, as the row computes them.
#define SCAN_ROW(name, type, kept, read, written)                                                      \
    static void scan_##name(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, \
                            row_fn *row) {                                                             \
        type element;                                                                                  \
        memcpy(&element, from, sizeof element);                                                        \
        memcpy(to, &element, sizeof element);                                                          \
        kept a = read(element), b;                                                                     \
        for (int64_t i = 1; i < n; i++) {                                                              \
            memcpy(&element, from + i * from_step, sizeof element);                                    \
            b = read(element);                                                                         \
            cpu_call_row(row, &a, &a, &b, NULL, 1);                                                    \
            element = written(a);                                                                      \
            memcpy(to + i * to_step, &element, sizeof element);                                        \
        }                                                                                              \
    }
SCAN_ROW(f16_logs, float16, float, half_to_float, half_from_float)
SCAN_ROW(bf16_logs, bfloat16, float, bfloat_to_float, bfloat_from_float)
SCAN_ROW(f32_logs, float, float, , )
SCAN_ROW(f64_logs, double, double, , )
SCAN_ROW(c64_logs, complex64, complex64, , )

static scan_fn *line_of(enum scan which, zl_dtype dtype) {
#define ROW(name) \
    { scan_##name##_sum, scan_##name##_prod, scan_##name##_max, scan_##name##_min, NULL }
#define FLOAT(name) \
    { scan_##name##_sum, scan_##name##_prod, scan_##name##_max, scan_##name##_min, scan_##name##_logs }
    static scan_fn *const lines[ZL_DTYPE_COUNT][SCAN_LOGADDEXP + 1] = {
        [ZL_BOOL] = {scan_bool_or, scan_bool_and, scan_bool_or, scan_bool_and, NULL},
        [ZL_UINT8] = ROW(u8),
        [ZL_UINT16] = ROW(u16),
        [ZL_UINT32] = ROW(u32),
        [ZL_UINT64] = ROW(u64),
        [ZL_INT8] = ROW(i8),
        [ZL_INT16] = ROW(i16),
        [ZL_INT32] = ROW(i32),
        [ZL_INT64] = ROW(i64),
        [ZL_FLOAT16] = FLOAT(f16),
        [ZL_BFLOAT16] = FLOAT(bf16),
        [ZL_FLOAT32] = FLOAT(f32),
        [ZL_FLOAT64] = FLOAT(f64),
        [ZL_COMPLEX64] = FLOAT(c64),
    };
    return lines[dtype][which];
}

// Scans -----------------------------------------------------------------------------------------------------------

enum { COLUMNS = 512, COLUMNS_LEAST = 8 }; // elements of a row that are scanned together

struct scanning {
    struct layout others; // the axes that are not scanned; operands: to, from
    int64_t n;            // elements along the axis
    int64_t step[2];      // bytes along it; negative if it goes backwards
    bool inclusive;
    int64_t item;       // bytes of an element
    union scalar start; // what no elements give
    scan_fn *line;
    row_fn *row, *widen, *narrow; // NULL: elements are kept as they are
};

static void scan_line(const struct scanning *s, char *to, const char *from) {
    if (s->inclusive) {
        s->line(to, s->step[TO], from, s->step[FROM], s->n, s->row);
        return;
    }
    cpu_slice_run(to, (const char *)&s->start, (size_t)s->item);
    if (s->n > 1)
        s->line(to + s->step[TO], s->step[TO], from, s->step[FROM], s->n - 1, s->row);
}

static void scan_lines(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    for (;;) {
        scan_line(context, w->data[TO], w->data[FROM]);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Rows of cols elements, n of them: each is the one before, combined with what is read.
static void scan_rows_kept(const struct scanning *s, char *to, const char *from, int64_t n, int64_t cols) {
    memcpy(to, from, (size_t)(cols * s->item));
    for (int64_t i = 1; i < n; i++)
        cpu_call_row(s->row, to + i * s->step[TO], to + (i - 1) * s->step[TO], from + i * s->step[FROM], NULL,
                     cols);
}

static void scan_rows_wide(const struct scanning *s, char *to, const char *from, int64_t n, int64_t cols) {
    _Alignas(64) char kept[COLUMNS * 4], read[COLUMNS * 4];
    memcpy(to, from, (size_t)(cols * s->item));
    cpu_call_row(s->widen, kept, from, NULL, NULL, cols);
    for (int64_t i = 1; i < n; i++) {
        cpu_call_row(s->widen, read, from + i * s->step[FROM], NULL, NULL, cols);
        cpu_call_row(s->row, kept, kept, read, NULL, cols);
        cpu_call_row(s->narrow, to + i * s->step[TO], kept, NULL, NULL, cols);
    }
}

static void scan_columns(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    const struct scanning *s = context;
    for (;;) {
        int64_t cols = cpu_walk_extent(l, w, l->axes - 1), n = s->n - !s->inclusive;
        char *to = w->data[TO] + (s->inclusive ? 0 : s->step[TO]);
        if (!s->inclusive)
            cpu_fill((size_t)s->item, w->data[TO], (const char *)&s->start, cols);
        if (n > 0 && s->widen)
            scan_rows_wide(s, to, w->data[FROM], n, cols);
        else if (n > 0)
            scan_rows_kept(s, to, w->data[FROM], n, cols);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// What no elements give; of an extreme, the number furthest from it.
static union scalar start_of(enum scan which, zl_dtype dtype) {
    static const double numbers[] = {0, 1, -INFINITY, INFINITY, -INFINITY};
    double number = dtype == ZL_BOOL && which == SCAN_MAX ? 0 : numbers[which];
    union scalar start = {.i = 0};
    dtype_convert(&start, dtype, &number, ZL_FLOAT64, 1);
    return start;
}

static bool choose_rows(struct scanning *s, enum scan which, zl_dtype dtype) {
    static const enum tile_op ops[] = {TILE_ADD, TILE_MUL, TILE_MAX, TILE_MIN, TILE_LOGADDEXP};
    const struct row_table *rows = cpu_level()->rows;
    bool is_half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    s->line = line_of(which, dtype);
    s->row = rows->op[ops[which]][is_half ? ZL_FLOAT32 : dtype][0];
    s->widen = is_half ? rows->cast[ZL_FLOAT32][dtype] : NULL;
    s->narrow = is_half ? rows->cast[dtype][ZL_FLOAT32] : NULL;
    return (s->line && s->row) ||
           error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for scan of %s", zl_dtype_name(dtype));
}

// The axes but one, whose strides go to s; list: room for three numbers an axis.
static void split_axes(struct scanning *s, zl_array out, zl_array x, const char *data, const int64_t *arg,
                       int64_t *list) {
    int ndim = out->ndim, axis = (int)arg[1];
    int64_t *dim = list, *to = dim + ndim, *from = to + ndim,
            steps[] = {array_stride(out)[axis], array_stride(x)[axis]};
    char *start = cpu_data(out);
    for (int i = 0; i < ndim; i++) {
        dim[i] = i == axis ? 1 : out->dim[i];
        to[i] = array_stride(out)[i];
        from[i] = array_stride(x)[i];
    }
    s->n = out->dim[axis];
    for (int k = 0; k < 2; k++)
        s->step[k] = steps[k] * s->item * (arg[2] ? -1 : 1);
    int64_t last = arg[2] ? s->n - 1 : 0;
    cpu_layout_start(&s->others, ndim, dim, 1);
    cpu_layout_add(&s->others, start - last * s->step[TO], (size_t)s->item, ndim, dim, to);
    cpu_layout_add(&s->others, data - last * s->step[FROM], (size_t)s->item, ndim, dim, from);
    cpu_layout_merge(&s->others);
}

static void run_scan(struct scanning *s) {
    struct layout *l = &s->others;
    const struct layout_axis *inner = l->axes ? &l->axis[l->axes - 1] : NULL;
    bool rows = inner && inner->dim >= COLUMNS_LEAST && inner->stride[TO] == s->item &&
                inner->stride[FROM] == s->item;
    l->loops = l->axes;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = rows && j == l->axes - 1 ? MIN_OF(l->axis[j].dim, COLUMNS) : 1;
    cpu_walk(l, (double)(l->size * s->n * s->item) * 4, rows ? scan_columns : scan_lines, s);
}

bool cpu_scan(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    const int64_t *arg = call_args(c);
    struct scanning s;
    OP_ROOM(int64_t, list, 3 * (int64_t)out->ndim);
    if (!list || !choose_rows(&s, (enum scan)arg[0], (zl_dtype)x->dtype))
        return false;
    s.inclusive = arg[3];
    s.item = (int64_t)array_item(x);
    s.start = start_of((enum scan)arg[0], (zl_dtype)x->dtype);
    split_axes(&s, out, x, array_data(x, &room), arg, list);
    run_scan(&s);
    return true;
}
