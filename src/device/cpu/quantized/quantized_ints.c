// quantized_ints.c - products with quantised matrices in integer arithmetic: rows of x are converted to whole
// numbers, and multiplied by a few columns of codes at a time.

#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/lanes.h"
#include "device/cpu/rows/operands.h"

#include <float.h>
#include <math.h>

enum { LINE = 64 };            // bytes per cache line: vectors of codes do not cross lines
enum { BLOCK = 32 };           // columns per block of work,
enum { WIDE_BLOCK = 64 };      // with dozens, at most, or
enum { LONG_BLOCK = 1024 };    // with one row, at most
enum { ROWS_FEW = 4 };         // up to so many rows are not multiplied as a dozen
enum { SHARED = 32 };          // in dozens: the most codes that are added up in one integer sum
enum { WORK_LEAST = 1 << 18 }; // products that are worth another thread

struct ints {
    const struct quantized *q;
    // the call in mode gguf_k; q is then an affine call whose scales are unpacked from it. NULL: q is the
    // call
    const struct quantized *k;
    const struct int_kind *kind;
    int parts, set;   // lines per row; rows per set
    int64_t sets;     // per matrix of x
    bool dozens;      // sets have twelve rows
    int largest;      // the largest magnitude of a code in dozens
    int less;         // what is subtracted from codes in dozens
    float most;       // the largest whole number
    bool vector;      // there is one row, multiplied by kind->vector
    int64_t block;    // columns per block of work
    bool zips;        // columns are zipped, once for all sets
    int64_t code_set; // bytes of a set
    char *room;       // the memory of the following
    int8_t *code;     // of all sets
    float *factor, *sum;
    atomic_bool failed, odd; // out of memory; a number is not finite
};

static int rows_of(const struct ints *j, int64_t set) {
    return (int)MIN_OF(j->set, j->q->m - set % j->sets * j->set);
}

static int lines_of(const struct ints *j, int rows) {
    return j->dozens ? j->parts * INT_DOZEN : int_set_lines(j->kind, j->parts, rows);
}

// Returns whether the row (there is only one) has the layout that the kind's own function reads.
static bool is_arranged(const struct ints *j) {
    return j->vector && j->kind->arrange;
}

// Returns the number of group sums of a set.
static int64_t set_sums(const struct ints *j) {
    return (is_arranged(j) ? (j->q->groups + INT_SUMS - 1) / INT_SUMS * INT_SUMS : j->q->groups) * j->set;
}

// Rows ------------------------------------------------------------------------------------------------------

// For loops that GCC vectorises only at -O3.
#if defined(__clang__)
#define VECTORS
#else
#define VECTORS __attribute__((optimize("O3", "no-trapping-math")))
#endif

// Returns the largest magnitude. It compares bits, because those of non-negative floats have the order of
// their values.
VECTORS static float largest_of(const float *x, int64_t count) {
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float largest;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

// Converts floats to whole numbers and splits these into bytes, the highest first, each part in a line of its
// own.
#define SPLIT(parts)                                                                       \
    VECTORS static void split_##parts(const float *restrict x, int64_t count, float times, \
                                      int8_t *restrict first, int8_t *restrict second,     \
                                      int8_t *restrict third) {                            \
        for (int64_t i = 0; i < count; i++) {                                              \
            float value = x[i] * times;                                                    \
            int32_t whole = (int32_t)(value + (value < 0 ? -0.5f : 0.5f));                 \
            if (parts == 3) {                                                              \
                third[i] = (int8_t)whole;                                                  \
                whole = (whole + 128) >> 8; /* what is left when that has a sign */        \
            }                                                                              \
            second[i] = (int8_t)whole;                                                     \
            first[i] = (int8_t)((whole + 128) >> 8);                                       \
        }                                                                                  \
    }
SPLIT(2)
SPLIT(3)

VECTORS static float sum_of(const float *x, int count) {
    float sum[4] = {0};
    for (int i = 0; i < count; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += x[i + k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Stores a line of a set, eight numbers per slice; slices are `step` bytes apart. apart: of 16 numbers, those
// at even indices come first.
static void put_eights(const int8_t *from, int64_t k, int64_t step, bool apart, int8_t *to) {
    for (int64_t i = 0; i < k; i += 16, to += 2 * step) {
        bytes16 x = *(const bytes_memory *)(from + i);
        if (apart)
            x = __builtin_shufflevector(x, x, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        memcpy(to, &x, 8);
        memcpy(to + step, (const char *)&x + 8, 8);
    }
}

// Stores a line of a set, slice by slice. Of every `block` numbers, those whose index is a multiple of
// `every` come first, then the numbers after each of these, and so on.
static void put_line(const int8_t *from, int64_t k, int slice, int64_t step, int block, int every,
                     int8_t *to) {
    int8_t moved[64];
    for (int64_t i = 0; i < k; i += block, from += block) {
        const int8_t *at = from;
        if (every > 1) {
            for (int n = 0, out = 0; n < every; n++)
                for (int p = n; p < block; p += every)
                    moved[out++] = from[p];
            at = moved;
        }
        for (int n = 0; n < block; n += slice, to += step)
            memcpy(to, at + n, (size_t)slice);
    }
}

static void put_parts(const struct ints *j, int64_t set, int row, const int8_t *const *part) {
    const struct quantized *q = j->q;
    bool quarters = j->vector && q->u.bits == 6, halves = j->kind->apart && q->u.bits == 4;
    int rows = rows_of(j, set), slice = quarters ? 16 : j->kind->slice;
    for (int p = 0; p < j->parts; p++) {
        int line = j->dozens ? INT_DOZEN * p + row : int_line(rows, row, p);
        int8_t *to = j->code + set * j->code_set + line * slice;
        int64_t step = (int64_t)lines_of(j, rows) * slice;
        if (slice == 8)
            put_eights(part[p], q->k, step, halves, to);
        else
            put_line(part[p], q->k, slice, step, quarters ? 64 : 16, quarters ? 4 : 1, to);
    }
}

// Computes the sums of the groups of a row, in the order of its set.
static void put_sums(const struct ints *j, int64_t set, int row, const float *x, float unit) {
    const int group = j->q->u.group;
    const int64_t groups = j->q->groups, step = j->dozens ? INT_DOZEN : 1;
    float *sums = j->sum + set * set_sums(j) + row * (j->dozens ? 1 : groups);
    for (int64_t g = 0; g < groups; g++)
        sums[g * step] = sum_of(x + g * group, group) * unit;
    for (int64_t g = groups; is_arranged(j) && g < set_sums(j); g++)
        sums[g] = 0;
}

static bool fill_row(const struct ints *j, int64_t set, int row, const float *x, int8_t *room) {
    const struct quantized *q = j->q;
    const float most = j->most, largest = largest_of(x, q->k);
    if (!isfinite(largest))
        return false;
    bool tiny = largest < FLT_MIN * most;
    int8_t *part[3] = {room, room + q->k, room + 2 * q->k};
    (j->parts == 2 ? split_2 : split_3)(x, q->k, tiny ? 0 : most / largest, part[0], part[1], part[2]);
    j->factor[set * j->set + row] = tiny ? 0 : largest / most;
    if (is_arranged(j))
        j->kind->arrange((const int8_t *const *)part, j->parts, q->k, q->u.bits, j->code + set * j->code_set);
    else
        put_parts(j, set, row, (const int8_t *const *)part);
    put_sums(j, set, row, x, !j->vector ? 1 : tiny ? 0 : most / largest);
    return true;
}

// Clears a set, so that rows that only pad it are zero.
static void clear_set(const struct ints *j, int64_t set) {
    memset(j->code + set * j->code_set, 0, (size_t)j->code_set);
    memset(j->factor + set * j->set, 0, sizeof(float) * (size_t)j->set);
    memset(j->sum + set * set_sums(j), 0, sizeof(float) * (size_t)set_sums(j));
}

static void fill_sets(const void *context, int64_t from, int64_t to) {
    struct ints *j = (struct ints *)(uintptr_t)context;
    const struct quantized *q = j->q;
    float *wide = cpu_scratch(SCRATCH_WORK, (size_t)(q->k * ((int64_t)sizeof(float) + 3)));
    if (!wide) {
        atomic_store(&j->failed, true);
        return;
    }
    for (; from < to; from++) {
        int rows = rows_of(j, from), lines = lines_of(j, rows);
        if (lines > j->parts * rows && !is_arranged(j))
            clear_set(j, from);
        for (int r = 0; r < rows; r++) {
            const char *x = q->x + (from / j->sets * q->m + from % j->sets * j->set + r) * q->k * q->item;
            if (q->item == 2)
                cpu_call_row(cpu_level()->rows->cast[ZL_FLOAT32][q->dtype], wide, x, NULL, NULL, q->k);
            if (!fill_row(j, from, r, q->item == 2 ? wide : (const float *)(const void *)x,
                          (int8_t *)(wide + q->k)))
                atomic_store(&j->odd, true);
        }
    }
}

// Returns whether the last part of rows has sums of its own: with three parts and codes of eight bits, sums
// of all parts would not fit into 32 bits.
static bool is_apart(const struct ints *j) {
    return j->parts == 3 && j->q->u.bits == 8;
}

// Chooses sets of twelve rows if there are enough rows, and limits whole numbers so that sums of a block fit
// into 32 bits (quantized_dozen.c).
static void choose_dozens(struct ints *j) {
    const struct quantized *q = j->q;
    if (!j->kind->dozen || q->m <= ROWS_FEW)
        return;
    bool affine = q->u.mode == QUANT_AFFINE;
    j->dozens = true;
    j->largest = affine ? 1 << (q->u.bits - 1) : 12;
    j->less = affine ? j->largest : 0;
    if (j->parts == 3 && !is_apart(j))
        j->most = MIN_OF(j->most, (float)(INT32_MAX / (j->largest * MIN_OF(q->u.group, SHARED)) - 1));
}

// Chooses the sizes of sets and blocks, and fills the sets of all rows of x. The caller frees j->room.
// Returns false, with an error, if memory runs out.
static bool make_sets(struct ints *j) {
    const struct quantized *q = j->q;
    j->parts = q->dtype == ZL_FLOAT32 ? 3 : 2;
    j->most = j->parts == 2 ? 127 * 256 : 127 * 65536;
    choose_dozens(j);
    j->vector = j->kind->can_vector && j->kind->can_vector(q);
    j->set = is_arranged(j) ? 1 : j->dozens ? INT_DOZEN : j->parts == 3 ? 2 : 4;
    j->sets = (q->m + j->set - 1) / j->set;
    const int64_t share = q->n / (4 * pool_threads()), most = j->vector   ? LONG_BLOCK
                                                              : j->dozens ? WIDE_BLOCK
                                                                          : BLOCK;
    j->block = MAX_OF(MIN_OF(share / BLOCK * BLOCK, most), BLOCK);
    bool half = q->u.bits == 4 && q->u.group == 16; // a group is half of the codes that are unpacked at once
    j->zips = !j->kind->direct || j->dozens || j->sets > 2 || half || q->u.mode != QUANT_AFFINE;
    j->code_set = is_arranged(j) ? j->parts * ((q->k + INT_PADDED - 1) / INT_PADDED * INT_PADDED)
                                 : lines_of(j, j->set) * q->k;
    int64_t sets = j->sets * q->matrices, codes = sets * j->code_set, numbers = sets * (j->set + set_sums(j));
    if (!(j->room = memory_alloc((size_t)(LINE + codes + numbers * (int64_t)sizeof(float)))))
        return false;
    j->code = (int8_t *)j->room + (LINE - (uintptr_t)j->room % LINE);
    j->factor = (float *)(void *)(j->code + codes);
    j->sum = j->factor + sets * j->set;
    cpu_split(sets, WORK_LEAST / 8 / (q->k * j->set) + 1, fill_sets, j);
    return !atomic_load(&j->failed);
}

// Columns ---------------------------------------------------------------------------------------------------

struct column_room {
    float *scale, *bias, *unit;
    int32_t *share;
    float *result;  // results of a block of columns, row by row
    uint8_t *codes; // one per byte
    int8_t *zipped;
};

// Returns the floats of the scales of the columns that are multiplied at once: one per group or per 32 codes,
// with slack after those of each column.
static int64_t room_scales(const struct ints *j) {
    return MAX_OF(j->q->groups + 2 * INT_SUMS, j->q->k / SHARED) * j->kind->columns;
}

// Returns the number of 4-byte numbers for these columns: scales and biases and, for a dozen rows, two kinds
// of shares of twice the size, and units.
static int64_t room_each(const struct ints *j) {
    return room_scales(j) * (j->dozens ? 6 : 2) + j->kind->columns;
}

// Sets the addresses of the biases, shares and units of some columns from that of their scales.
static void place_numbers(const struct ints *j, struct column_room *r) {
    const int64_t scales = room_scales(j);
    r->bias = r->scale + scales;
    r->share = (int32_t *)(void *)(r->bias + scales);
    r->unit = r->scale + room_each(j) - j->kind->columns;
}

// Returns how many columns are read before they are multiplied. Of zipped ones there are many, so that a set
// stays in the cache while it is multiplied by all of them.
static int64_t room_columns(const struct ints *j) {
    return j->dozens ? j->block : j->zips ? BLOCK : j->kind->columns;
}

// Returns the bytes of the numbers of the columns and of the results.
static int64_t room_numbers(const struct ints *j) {
    int64_t numbers = room_each(j) * (room_columns(j) / j->kind->columns) + j->q->m * j->block;
    return (numbers + 15) / 16 * 16 * (int64_t)sizeof(float);
}

static bool get_room(const struct ints *j, struct column_room *r) {
    const struct quantized *q = j->q;
    int64_t columns = room_columns(j), all = room_each(j) * (columns / j->kind->columns),
            numbers = room_numbers(j);
    char *room = cpu_scratch(SCRATCH_WEIGHTS, (size_t)(numbers + q->k * (columns + j->kind->columns)));
    if (room)
        *r = (struct column_room){.scale = (float *)(void *)room,
                                  .result = (float *)(void *)room + all,
                                  .zipped = (int8_t *)room + numbers,
                                  .codes = (uint8_t *)room + numbers + q->k * columns};
    return room != NULL;
}

// Converts scales that are bytes to float32, group by group. They are halved, because four-bit floats are
// multiplied as integers of twice their value.
static void turn_bytes(const struct ints *j, const char *const *column, float *room, float *out) {
    int64_t groups = j->q->groups, columns = j->kind->columns;
    for (int64_t i = 0; i < columns; i++) {
        cpu_unpack_scales(&j->q->u, column[i], groups, room);
        for (int64_t g = 0; g < groups; g++)
            out[g * columns + i] = 0.5f * room[g];
    }
}

// Converts biases to float32, because they are used for many rows.
static void widen_biases(const struct ints *j, struct int_columns *c, struct column_room *r) {
    for (int i = 0; i < j->kind->columns; i++) {
        float *room = r->bias + i * j->q->groups;
        cpu_unpack_scales(&j->q->u, c->bias[i], j->q->groups, room);
        c->bias[i] = (const char *)room;
    }
    c->dtype = ZL_FLOAT32;
}

VECTORS static void add_times(float *restrict bias, const float *restrict scale, float times, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        bias[i] += times * scale[i];
}

// Computes the biases of signed codes, in the order of scales: adds the scale times the number that was
// subtracted from codes.
static void read_offsets(const struct ints *j, struct int_columns *c, struct column_room *r) {
    int64_t count = j->q->groups * j->kind->columns;
    j->kind->turn(j->q->u.dtype, c->bias, j->q->groups, r->bias);
    add_times(r->bias, r->scale, (float)j->less, count);
    c->offset = r->bias;
    c->is_offset = largest_of(r->bias, count) > 0;
}

static void read_numbers(const struct ints *j, const int64_t *at, struct int_columns *c,
                         struct column_room *r) {
    const struct quantized *q = j->q;
    const char *scale[INT_COLUMNS_MOST];
    for (int i = 0; i < j->kind->columns; i++) {
        scale[i] = q->scales + at[i] * q->scale_item;
        c->bias[i] = q->biases ? q->biases + at[i] * q->scale_item : NULL;
    }
    if (q->u.mode == QUANT_AFFINE)
        j->kind->turn(q->u.dtype, scale, q->groups, r->scale);
    else
        turn_bytes(j, scale, r->bias, r->scale);
    if (j->dozens && q->biases)
        read_offsets(j, c, r);
    else if (j->zips && q->biases)
        widen_biases(j, c, r);
    if (j->dozens)
        j->kind->shares(r->scale, q->groups, q->u.group, (double)j->most * j->largest, is_apart(j), r->share,
                        r->unit);
}

// Reads the columns that are multiplied at once, from row `row` of matrix w on. Columns after the last repeat
// it.
static void read_columns(const struct ints *j, int64_t w, int64_t row, struct column_room *r,
                         struct int_columns *c) {
    const struct quantized *q = j->q;
    int64_t at[INT_COLUMNS_MOST];
    c->scale = r->scale, c->dtype = q->u.dtype, c->group = q->u.group;
    c->share = r->share, c->unit = r->unit;
    c->bits = q->u.bits, c->offset = r->bias, c->is_offset = false;
    for (int i = 0; i < j->kind->columns; i++) {
        at[i] = quantized_at(q, w, MIN_OF(row + i, q->rows - 1), 0);
        c->row[i] = quantized_words(q, at[i]);
        if (q->u.bits == 4 || q->u.bits == 8)
            continue;
        uint8_t *room = r->codes + i * q->k;
        cpu_unpack_codes(q->u.bits, (const char *)c->row[i], q->k, room);
        c->row[i] = room;
    }
    read_numbers(j, at, c, r);
    c->zipped = NULL;
    if (j->zips) {
        j->kind->zip(&q->u, c->row, q->u.bits == 4 ? 4 : 8, q->k, j->less, r->zipped);
        c->zipped = r->zipped;
    }
}

// Products --------------------------------------------------------------------------------------------------

static struct int_set set_of(const struct ints *j, int64_t set) {
    return (struct int_set){.code = j->code + set * j->code_set,
                            .factor = j->factor + set * j->set,
                            .sum = j->sum + set * set_sums(j),
                            .parts = j->parts,
                            .rows = rows_of(j, set),
                            .groups = j->q->groups};
}

// Multiplies a dozen rows by some columns, some codes of each row at a time, so that these stay in the cache.
static void multiply_dozen(const struct ints *j, const struct int_set *x, const struct int_columns *some,
                           int64_t columns, float *out) {
    enum { SUMS = INT_DOZEN * 4 };
    const int64_t each = j->kind->columns, count = (columns + each - 1) / each;
    const int64_t groups = x->groups, step = MAX_OF(INT_CODES_MOST / j->q->u.group, 1);
    _Alignas(16) float sum[WIDE_BLOCK / 4 * SUMS];
    memset(sum, 0, sizeof *sum * (size_t)(count * SUMS));
    for (int64_t g = 0; g < groups; g += step)
        for (int64_t i = 0; i < count; i++) {
            int64_t to = MIN_OF(g + step, groups), bytes = (to - g) * j->q->u.group * j->parts * INT_DOZEN;
            j->kind->dozen(x, &some[i], g, to, bytes + bytes * i / count, sum + i * SUMS);
            if (g + step >= groups)
                j->kind->dozen_results(x, &some[i], sum + i * SUMS, out + i * each, j->block);
        }
}

// Reads columns from `from` on, as many as there is room for, then multiplies one set after the other by
// them.
static void multiply_some(const struct ints *j, int64_t matrix, int64_t w, int64_t from, int64_t columns,
                          struct column_room r, float *out) {
    const int64_t each = j->kind->columns;
    struct int_columns some[WIDE_BLOCK / 4];
    for (int64_t i = 0; i * each < columns; i++) {
        place_numbers(j, &r);
        read_columns(j, w, from + i * each, &r, &some[i]);
        r.scale += room_each(j), r.zipped += j->q->k * each;
    }
    for (int64_t s = 0; s < j->sets; s++) {
        struct int_set x = set_of(j, matrix * j->sets + s);
        float *to = out + s * j->set * j->block;
        if (j->dozens)
            multiply_dozen(j, &x, some, columns, to);
        else
            for (int64_t i = 0; i * each < columns; i++)
                j->kind->run(&x, &some[i], to + i * each, j->block);
    }
}

// Computes `columns` columns of a product, at most a block, from `from` on.
static void multiply_columns(const struct ints *j, int64_t product, int64_t from, int64_t columns,
                             struct column_room *r) {
    const struct quantized *q = j->q;
    int64_t matrix = q->first ? q->first[product] : 0, w = q->second ? q->second[product] : 0;
    if (j->vector) {
        struct int_set x = set_of(j, matrix);
        j->kind->vector(q, &x, quantized_at(q, w, from, 0), columns, r->scale, r->result);
        return;
    }
    for (int64_t c = 0, n; c < columns; c += n) {
        n = MIN_OF(room_columns(j), columns - c);
        multiply_some(j, matrix, w, from + c, n, *r, r->result + c);
    }
}

// Does the same in mode gguf_k, after unpacking the scales.
static bool multiply_k_columns(const struct ints *j, int64_t product, int64_t from, int64_t columns,
                               struct column_room *r) {
    struct quantized q = *j->k;
    const int64_t at = quantized_at(&q, q.second ? q.second[product] : 0, from, 0),
                  numbers = columns * q.groups;
    const int64_t matrix = q.first ? q.first[product] : 0;
    float *scale = cpu_scratch(SCRATCH_SCALES, (size_t)numbers * 2 * sizeof *scale);
    if (!scale)
        return false;
    cpu_unpack_k(&q.u, quantized_scales(&q, at), numbers, scale, scale + numbers);
    q.u = j->q->u, q.scale_item = sizeof *scale, q.rows = columns;
    q.words = (const char *)quantized_words(&q, at), q.second = NULL;
    q.first = q.first ? &matrix : NULL;
    q.scales = (const char *)scale, q.biases = (const char *)(scale + numbers);
    struct ints own;
    memcpy(&own, j, sizeof own);
    own.q = &q;
    multiply_columns(&own, 0, 0, columns, r);
    return true;
}

static void multiply_block(struct ints *j, int64_t product, int64_t from) {
    const struct quantized *q = j->q;
    int64_t columns = MIN_OF(j->block, q->n - from);
    struct column_room r;
    if (!get_room(j, &r) || (j->k && !multiply_k_columns(j, product, from, columns, &r))) {
        atomic_store(&j->failed, true);
        return;
    }
    if (!j->k)
        multiply_columns(j, product, from, columns, &r);
    char *out = q->out + (product * q->m * q->n + from) * q->item;
    for (int64_t i = 0; i < q->m; i++, out += q->n * q->item)
        if (q->item == 2)
            cpu_call_row(cpu_level()->rows->cast[q->dtype][ZL_FLOAT32], out, r.result + i * j->block, NULL,
                         NULL, columns);
        else
            memcpy(out, r.result + i * j->block, sizeof(float) * (size_t)columns);
}

static int64_t blocks_of(const struct ints *j) {
    return (j->q->n + j->block - 1) / j->block;
}

static void multiply_range(const void *context, int64_t from, int64_t to) {
    struct ints *j = (struct ints *)(uintptr_t)context;
    for (int64_t blocks = blocks_of(j); from < to; from++)
        multiply_block(j, from / blocks, from % blocks * j->block);
}

static bool can(const struct quantized *q, const struct int_kind *kind) {
    return kind && q->m <= kind->rows_most && q->transpose && q->dtype != ZL_FLOAT64 &&
           (q->u.mode == QUANT_AFFINE ? q->u.dtype != ZL_FLOAT64
                                      : q->u.mode == QUANT_GGUF_K || q->u.bits == 4);
}

bool cpu_multiply_ints(const struct quantized *q, bool *done) {
    struct ints j = {.q = q, .kind = cpu_int_kind()};
    struct quantized affine = *q;
    if (q->u.mode == QUANT_GGUF_K && !(j.kind && j.kind->arrange && j.kind->can_vector(q))) {
        affine.u.mode = QUANT_AFFINE, affine.u.dtype = ZL_FLOAT32;
        j.q = &affine, j.k = q, q = &affine;
    }
    atomic_init(&j.failed, false);
    atomic_init(&j.odd, false);
    if (!can(q, j.kind))
        return true;
    bool ok = make_sets(&j);
    if (ok && !atomic_load(&j.odd)) {
        cpu_split(q->products * blocks_of(&j), WORK_LEAST / (j.block * q->m * q->k) + 1, multiply_range, &j);
        ok = *done = !atomic_load(&j.failed);
    }
    memory_free(j.room);
    return ok;
}
