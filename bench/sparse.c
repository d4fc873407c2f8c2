// sparse.c - how near products of sparse matrices come to the machine's reading, counting the bytes that must
// move: values, indices and row pointers, the vector and the result, each once. The limit is measured in the
// same rounds.

#include "bench.h"
#include "limits.h"

enum { ROWS = 1 << 20, CASES = 8 };

static struct bench_options options;
static struct bench_case cases[CASES];
static int case_count;

// A matrix of ROWS columns.
struct matrix {
    zl_array values, indices, pointers;
};

static struct matrix matrix_of(const int32_t *index, const int32_t *pointer, zl_dtype dtype) {
    int64_t entries = pointer[ROWS];
    return (struct matrix){kept(zl_ones(ZL_SHAPE(entries), dtype)),
                           kept(zl_from_i32(index, ZL_SHAPE(entries))),
                           kept(zl_from_i32(pointer, ZL_SHAPE(ROWS + 1)))};
}

// The graph of a cycle: each row has the next one, or the one before it and the next one.
static struct matrix cycle(int each, zl_dtype dtype) {
    int32_t *index = malloc(sizeof *index * ROWS * (size_t)each),
            *pointer = malloc(sizeof *pointer * (ROWS + 1));
    need(index && pointer);
    for (int i = 0; i < ROWS; i++) {
        index[i * each] = (i + ROWS - 1) % ROWS;
        index[i * each + each - 1] = (i + 1) % ROWS;
        pointer[i] = i * each;
    }
    pointer[ROWS] = ROWS * each;
    struct matrix m = matrix_of(index, pointer, dtype);
    free(index);
    free(pointer);
    return m;
}

static uint32_t next_number(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

// Rows of 0 to 15 entries, anywhere.
static struct matrix scattered(zl_dtype dtype) {
    int32_t *index = malloc(sizeof *index * ROWS * 16), *pointer = malloc(sizeof *pointer * (ROWS + 1));
    need(index && pointer);
    pointer[0] = 0;
    for (int i = 0; i < ROWS; i++) {
        pointer[i + 1] = pointer[i] + (int32_t)(next_number() % 16);
        for (int k = pointer[i]; k < pointer[i + 1]; k++)
            index[k] = (int32_t)(next_number() % ROWS);
    }
    struct matrix m = matrix_of(index, pointer, dtype);
    free(index);
    free(pointer);
    return m;
}

static struct matrix matrices[CASES];
static zl_array vectors[CASES];

static void run_matvec(struct bench_case *c) {
    const struct matrix *m = &matrices[c->count];
    ZL_SCOPE
        need(zl_eval(zl_csr_matvec(m->values, m->indices, m->pointers, vectors[c->count])));
}

static void add_case(const char *name, struct matrix m, zl_dtype dtype, double bar) {
    int at = case_count;
    if (options.only && !strstr(name, options.only))
        return;
    matrices[at] = m;
    vectors[at] = kept(zl_ones(ZL_SHAPE(ROWS), dtype));
    double bytes = (double)(zl_nbytes(m.values) + zl_nbytes(m.indices) + zl_nbytes(m.pointers));
    cases[case_count++] = (struct bench_case){.name = name,
                                              .limit = BENCH_READ,
                                              .bar = bar,
                                              .run = run_matvec,
                                              .work = bytes + 2 * (double)zl_nbytes(vectors[at]),
                                              .count = at};
}

static void run_rounds(int rounds) {
    for (int r = 0; r < rounds; r++) {
        bench_run_once(&limits[1]);
        for (int i = 0; i < case_count; i++)
            bench_run_once(&cases[i]);
    }
}

static int count_low(const char *baseline) {
    struct bench_rates r = limit_rates();
    int low = 0;
    for (int i = 0; i < case_count; i++)
        low += bench_ratio(&cases[i], &r) < bench_least(&cases[i], options.bars || !options.check, baseline);
    return low;
}

int main(int argc, char **argv) {
    if (!bench_read_options(argc, argv, &options))
        return 2;
    start_limits();
    add_case("cycle matvec f32, one a row", cycle(1, ZL_FLOAT32), ZL_FLOAT32, 0.8);
    add_case("cycle matvec f32, two a row", cycle(2, ZL_FLOAT32), ZL_FLOAT32, 0.8);
    add_case("cycle matvec f64, one a row", cycle(1, ZL_FLOAT64), ZL_FLOAT64, 0.8);
    add_case("random matvec f32", scattered(ZL_FLOAT32), ZL_FLOAT32, 0);
    char *baseline = options.check ? bench_read_file(options.check) : NULL;
    run_rounds(options.quick ? 6 : 20);
    for (int more = 0; !options.quick && more < 20 && count_low(baseline); more++)
        run_rounds(5); // that the machine was busy is no loss of ours
    struct bench_rates r = limit_rates();
    if (options.json)
        bench_print_json(cases, case_count, &r);
    else
        bench_print_table(cases, case_count, &r);
    int low = options.quick && !options.check && !options.bars ? 0 : count_low(baseline);
    free(baseline);
    return low > 0;
}
