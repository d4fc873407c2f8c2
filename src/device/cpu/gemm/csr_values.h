// csr_values.h - products of sparse matrices, included once per type of values and indices: CSR(name) and
// CSR_TYPE, and CSR_I(name), CSR_INDEX and CSR_BITS as in csr_index.h.
//
// The order in which a row is summed depends on the row alone, not on how rows are divided among threads.

typedef CSR_TYPE CSR(lanes) __attribute__((vector_size(16), aligned(sizeof(CSR_TYPE)), may_alias));

// Multiplies rows of one entry each (below: of two) without a loop per row. Adds to 0 and in the same order
// as rows_times_vector(). Indices are read in pairs, because loads limit the speed of these rows.
static void CSR(rows_of_one)(CSR_TYPE *restrict y, const CSR_TYPE *restrict value,
                             const CSR_INDEX *restrict index, const CSR_TYPE *restrict x, int64_t rows) {
    int64_t i = 0;
#pragma GCC unroll 4
    for (; i + 2 <= rows; i += 2) {
        struct CSR_I(pair) at = CSR_I(pair_at)(index + i);
        y[i] = 0 + value[i] * x[at.first];
        y[i + 1] = 0 + value[i + 1] * x[at.second];
    }
    if (i < rows)
        y[i] = 0 + value[i] * x[index[i]];
}

static void CSR(rows_of_two)(CSR_TYPE *restrict y, const CSR_TYPE *restrict value,
                             const CSR_INDEX *restrict index, const CSR_TYPE *restrict x, int64_t rows) {
    enum { LANES = 16 / sizeof(CSR_TYPE) };
    int64_t i = 0;
    for (; i + LANES <= rows; i += LANES) {
        const CSR(lanes) *pairs = (const CSR(lanes) *)(const void *)(value + 2 * i);
        CSR(lanes) even = {0}, odd = {0}, left = {0}, right = {0};
#pragma GCC unroll 4
        for (int k = 0; k < LANES; k++) {
            struct CSR_I(pair) at = CSR_I(pair_at)(index + 2 * (i + k));
            even[k] = pairs[2 * k / LANES][2 * k % LANES];
            odd[k] = pairs[2 * k / LANES][2 * k % LANES + 1];
            left[k] = x[at.first];
            right[k] = x[at.second];
        }
        *(CSR(lanes) *)(void *)(y + i) = 0 + even * left + odd * right;
    }
    for (; i < rows; i++)
        y[i] = 0 + value[2 * i] * x[index[2 * i]] + value[2 * i + 1] * x[index[2 * i + 1]];
}

// Adds the entries of a row from *at on in four sums, as long as four are left, and advances *at. Returns
// false if an index is larger than last.
static bool CSR(add_long_row)(const struct csr *c, CSR_INDEX *at, CSR_INDEX end, CSR_BITS last,
                              CSR_TYPE *result) {
    const CSR_TYPE *value = c->values, *x = c->dense;
    const CSR_BITS *index = c->indices;
    CSR_TYPE s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    CSR_INDEX i = *at;
    for (; i + 4 <= end; i += 4) {
        if (UNLIKELY(index[i] > last || index[i + 1] > last || index[i + 2] > last || index[i + 3] > last))
            return false;
        s0 += value[i] * x[index[i]];
        s1 += value[i + 1] * x[index[i + 1]];
        s2 += value[i + 2] * x[index[i + 2]];
        s3 += value[i + 3] * x[index[i + 3]];
    }
    *at = i;
    *result = (s0 + s1) + (s2 + s3);
    return true;
}

// Multiplies rows of unpredictable length: one loop for all but long rows, because mispredicting its end
// costs most. The branch on the check of an index is always predicted.
static bool CSR(rows_times_vector)(const struct csr *c, const CSR_INDEX *pointer, int64_t rows, CSR_TYPE *y) {
    const CSR_TYPE *value = c->values, *x = c->dense;
    const CSR_BITS *index = c->indices, last = CSR_I(last_of)(c->columns);
    for (int64_t row = 0; row < rows; row++) {
        CSR_INDEX i = pointer[row], end = pointer[row + 1];
        CSR_TYPE sum = 0;
        if (UNLIKELY(end - i >= CSR_LONG) && !CSR(add_long_row)(c, &i, end, last, &sum))
            return false;
        for (; i < end; i++) {
            if (UNLIKELY(index[i] > last))
                return false;
            sum += value[i] * x[index[i]];
        }
        y[row] = sum;
    }
    return true;
}

// Multiplies rows of `each` entries, one or two.
static bool CSR(equal_rows)(const struct csr *c, int64_t from, int64_t rows, int64_t each, CSR_TYPE *y) {
    const CSR_TYPE *value = (const CSR_TYPE *)c->values + from;
    const CSR_INDEX *index = (const CSR_INDEX *)c->indices + from;
    if (CSR_I(are_outside)(index, rows * each, c->columns))
        return false;
    if (each == 1)
        CSR(rows_of_one)(y, value, index, c->dense, rows);
    else
        CSR(rows_of_two)(y, value, index, c->dense, rows);
    return true;
}

// Multiplies rows [from, to) with a vector.
static bool CSR(vector_part)(const struct csr *c, int64_t from, int64_t to) {
    for (int64_t n; from < to; from += n) {
        n = MIN_OF(to - from, CSR_ROWS);
        const CSR_INDEX *pointer = (const CSR_INDEX *)c->pointers + from;
        CSR_TYPE *y = (CSR_TYPE *)c->out + from;
        int64_t each = CSR_I(entries_of_rows)(pointer, n, c->entries);
        bool is_short = each == 1 || each == 2;
        if (each == NOT_ROWS || !(is_short ? CSR(equal_rows)(c, pointer[0], n, each, y)
                                           : CSR(rows_times_vector)(c, pointer, n, y)))
            return false;
    }
    return true;
}

// Computes CSR_WIDTH columns of one row, beginning at dense and y; their sums stay in registers.
static void CSR(row_of_many)(const struct csr *c, int64_t from, int64_t to, const CSR_TYPE *dense,
                             CSR_TYPE *y) {
    enum { VECTORS = CSR_WIDTH * sizeof(CSR_TYPE) / 16 };
    const CSR_TYPE *value = c->values;
    const CSR_INDEX *index = c->indices;
    CSR(lanes) sum[VECTORS];
#pragma GCC unroll 16
    for (size_t k = 0; k < VECTORS; k++)
        sum[k] = (CSR(lanes)){0};
    for (; from < to; from++) {
        const CSR(lanes) *line = (const CSR(lanes) *)(const void *)(dense + index[from] * c->width);
#pragma GCC unroll 16
        for (size_t k = 0; k < VECTORS; k++)
            sum[k] += value[from] * line[k];
    }
#pragma GCC unroll 16
    for (size_t k = 0; k < VECTORS; k++)
        ((CSR(lanes) *)(void *)y)[k] = sum[k];
}

// Computes fewer than CSR_WIDTH columns.
static void CSR(row_of_few)(const struct csr *c, int64_t from, int64_t to, const CSR_TYPE *dense, CSR_TYPE *y,
                            int64_t width) {
    const CSR_TYPE *value = c->values;
    const CSR_INDEX *index = c->indices;
    CSR_TYPE sum[CSR_WIDTH] = {0};
    for (; from < to; from++)
        for (int64_t k = 0; k < width; k++)
            sum[k] += value[from] * dense[index[from] * c->width + k];
    memcpy(y, sum, sizeof *y * (size_t)width);
}

static void CSR(row_times_matrix)(const struct csr *c, int64_t from, int64_t to, CSR_TYPE *y) {
    const CSR_TYPE *dense = c->dense;
    int64_t k = 0;
    for (; k + CSR_WIDTH <= c->width; k += CSR_WIDTH)
        CSR(row_of_many)(c, from, to, dense + k, y + k);
    if (k < c->width)
        CSR(row_of_few)(c, from, to, dense + k, y + k, c->width - k);
}

// Returns whether the pointers and indices of rows [from, to) are valid.
static bool CSR(are_rows)(const struct csr *c, int64_t from, int64_t to) {
    const CSR_INDEX *pointer = c->pointers, *index = c->indices;
    return CSR_I(entries_of_rows)(pointer + from, to - from, c->entries) != NOT_ROWS &&
           !CSR_I(are_outside)(index + pointer[from], pointer[to] - pointer[from], c->columns);
}

// Multiplies rows [from, to) with a matrix.
static bool CSR(matrix_part)(const struct csr *c, int64_t from, int64_t to) {
    const CSR_INDEX *pointer = c->pointers;
    for (int64_t end; from < to; from = end) {
        end = MIN_OF(to, from + CSR_ROWS);
        if (!CSR(are_rows)(c, from, end))
            return false;
        for (int64_t row = from; row < end; row++)
            CSR(row_times_matrix)(c, pointer[row], pointer[row + 1], (CSR_TYPE *)c->out + row * c->width);
    }
    return true;
}

static void CSR(sample_row)(const struct csr *c, int64_t row, int64_t from, int64_t to) {
    const CSR_TYPE *left = (const CSR_TYPE *)c->left + row * c->width;
    const CSR_INDEX *index = c->indices;
    CSR_TYPE *out = c->out;
    for (; from < to; from++) {
        const CSR_TYPE *right = (const CSR_TYPE *)c->dense + index[from] * c->width;
        CSR_TYPE sum[4] = {0};
        int64_t k = 0;
        for (; k + 4 <= c->width; k += 4)
            for (int lane = 0; lane < 4; lane++)
                sum[lane] += left[k + lane] * right[k + lane];
        for (; k < c->width; k++)
            sum[0] += left[k] * right[k];
        out[from] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

// Computes, for each entry of rows [from, to), the dot product of row r of left and row c of dense, where (r,
// c) is the position of the entry.
static bool CSR(sample_part)(const struct csr *c, int64_t from, int64_t to) {
    const CSR_INDEX *pointer = c->pointers;
    for (int64_t end; from < to; from = end) {
        end = MIN_OF(to, from + CSR_ROWS);
        if (!CSR(are_rows)(c, from, end))
            return false;
        for (int64_t row = from; row < end; row++)
            CSR(sample_row)(c, row, pointer[row], pointer[row + 1]);
    }
    return true;
}

#undef CSR
#undef CSR_I
#undef CSR_INDEX
#undef CSR_BITS
#undef CSR_TYPE
