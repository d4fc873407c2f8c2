// csr_index.h - functions of the indices of sparse matrices, included once per index type: CSR_I(name),
// CSR_INDEX, and CSR_BITS, the unsigned type of the same size.
//
// Checks are arithmetic without branches: a wrong index or pointer sets a sign bit.

typedef CSR_BITS CSR_I(lanes) __attribute__((vector_size(16), aligned(sizeof(CSR_INDEX)), may_alias));

// Takes a pointer, because gcc 14 for aarch64 fails on parameters that are vectors of another alignment.
static bool CSR_I(any_negative)(const CSR_I(lanes) *v) {
    CSR_BITS bits = 0;
    for (size_t i = 0; i < sizeof *v / sizeof bits; i++)
        bits |= (*v)[i];
    return bits >> (8 * sizeof bits - 1);
}

static CSR_BITS CSR_I(last_of)(int64_t columns) {
    const int64_t most = (CSR_BITS)-1 >> 1;
    return (CSR_BITS)MIN_OF(columns - 1, most);
}

// Two adjacent indices, which one instruction loads if they are short. They have been checked.
struct CSR_I(pair) {
    CSR_BITS first, second;
};

static inline struct CSR_I(pair) CSR_I(pair_at)(const CSR_INDEX *index) {
    struct CSR_I(pair) both;
    memcpy(&both, index, sizeof both);
    return both;
}

// Returns whether any of n indices is outside of 0 to columns - 1.
static bool CSR_I(are_outside)(const CSR_INDEX *index, int64_t n, int64_t columns) {
    enum { LANES = 16 / sizeof(CSR_INDEX) };
    CSR_BITS last = CSR_I(last_of)(columns), rest = 0;
    CSR_I(lanes) wrong = {0}, also = wrong;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const CSR_I(lanes) *at = (const CSR_I(lanes) *)(const void *)(index + i);
        wrong |= at[0] | (last - at[0]);
        also |= at[1] | (last - at[1]);
    }
    for (; i < n; i++)
        rest |= (CSR_BITS)index[i] | (last - (CSR_BITS)index[i]);
    wrong[0] |= rest;
    wrong |= also;
    return CSR_I(any_negative)(&wrong);
}

// Returns how many entries each of the rows has if all have equally many, else NOT_EQUAL. Returns NOT_ROWS if
// the pointers decrease or leave the range of the entries.
static int64_t CSR_I(entries_of_rows)(const CSR_INDEX *pointer, int64_t rows, int64_t entries) {
    enum { LANES = 16 / sizeof(CSR_INDEX) };
    CSR_BITS first = (CSR_BITS)pointer[1] - (CSR_BITS)pointer[0], rest = 0, other = 0;
    CSR_I(lanes) wrong = {0}, differ = wrong, also = wrong, as_well = wrong;
    int64_t i = 0;
    for (; i + 2 * LANES <= rows; i += 2 * LANES) {
        const CSR_I(lanes) *start = (const CSR_I(lanes) *)(const void *)(pointer + i);
        const CSR_I(lanes) *end = (const CSR_I(lanes) *)(const void *)(pointer + i + 1);
        CSR_I(lanes) count = end[0] - start[0], next = end[1] - start[1];
        wrong |= start[0] | count;
        also |= start[1] | next;
        differ |= count ^ first;
        as_well |= next ^ first;
    }
    wrong |= also;
    differ |= as_well;
    for (; i < rows; i++) {
        CSR_BITS count = (CSR_BITS)pointer[i + 1] - (CSR_BITS)pointer[i];
        rest |= (CSR_BITS)pointer[i] | count;
        other |= count ^ first;
    }
    wrong[0] |= rest;
    if (pointer[rows] < 0 || pointer[rows] > entries || CSR_I(any_negative)(&wrong))
        return NOT_ROWS;
    for (int k = 0; k < LANES; k++)
        other |= differ[k];
    return other ? NOT_EQUAL : (int64_t)first;
}

// Returns the first row before which there are at least `work` rows and entries. Returns a row for any
// pointers, even invalid ones.
static int64_t CSR_I(row_after)(const struct csr *c, int64_t work) {
    const CSR_INDEX *pointer = c->pointers;
    int64_t low = 0, high = c->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (pointer[middle] < work - middle)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Writes the row of each entry of rows [from, to).
static bool CSR_I(rows_part)(const struct csr *c, int64_t from, int64_t to) {
    const CSR_INDEX *pointer = c->pointers, *index = c->indices;
    CSR_INDEX *out = c->out;
    if (CSR_I(entries_of_rows)(pointer + from, to - from, c->entries) == NOT_ROWS ||
        CSR_I(are_outside)(index + pointer[from], pointer[to] - pointer[from], c->columns))
        return false;
    for (; from < to; from++)
        for (int64_t i = pointer[from]; i < pointer[from + 1]; i++)
            out[i] = (CSR_INDEX)from;
    return true;
}

// Transposes a matrix: its columns become rows, with their entries in the order of the old rows. t has memory
// for all arrays. Returns false if the matrix is invalid.
static bool CSR_I(transpose)(const struct csr *c, struct csr *t) {
    const CSR_INDEX *pointer = c->pointers, *index = c->indices;
    CSR_INDEX *next = (CSR_INDEX *)(uintptr_t)t->pointers + 1, *row_of = (CSR_INDEX *)(uintptr_t)t->indices;
    if ((c->rows && CSR_I(entries_of_rows)(pointer, c->rows, c->entries) == NOT_ROWS) ||
        CSR_I(are_outside)(index, pointer[c->rows], c->columns))
        return false;
    memset(next - 1, 0, sizeof *next * (size_t)(c->columns + 2));
    for (int64_t i = 0; i < pointer[c->rows]; i++)
        next[index[i] + 1]++;
    for (int64_t k = 1; k <= c->columns; k++)
        next[k] += next[k - 1];
    for (int64_t row = 0; row < c->rows; row++) // next[k] advances from the start of column k to its end
        for (int64_t i = pointer[row]; i < pointer[row + 1]; i++) {
            CSR_INDEX at = next[index[i]]++;
            row_of[at] = (CSR_INDEX)row;
            cpu_slice_run((char *)(uintptr_t)t->values + at * c->item, (const char *)c->values + i * c->item,
                          (size_t)c->item);
        }
    return true;
}

#undef CSR_I
#undef CSR_INDEX
#undef CSR_BITS
