// test_kernels_order.c - scans, extremes and sorts on every device that runs kernels, compared with the CPU.

#include "on_devices.h"

struct scan_case {
    zl_dtype dtype;
    int axis;
    bool reverse, inclusive;
    int64_t dim[3];
    bool turned; // the last axis in memory is the first axis of the array
};

static zl_array scanned(const struct scan_case *s, uint64_t seed) {
    zl_array x = values((zl_shape){s->dim, 3}, s->dtype, seed);
    return s->turned ? zl_transpose(x, ZL_AXES(2, 1, 0)) : x;
}

static zl_array sum_along(void *data) {
    const struct scan_case *s = data;
    return zl_cumsum(scanned(s, 5), s->axis, s->reverse, s->inclusive, ZL_DTYPE_COUNT);
}

static zl_array most_along(void *data) {
    const struct scan_case *s = data;
    return zl_cummax(scanned(s, 6), s->axis, s->reverse, s->inclusive);
}

// By packs, by single elements, in parts, by columns and by columns in parts; then in the layout of the
// input.
static void check_scans(void) {
    static const struct scan_case cases[] = {
        {ZL_FLOAT32, 2, false, true, {2, 3, 2056}},
        {ZL_BFLOAT16, 2, true, false, {2, 1, 1024}},
        {ZL_INT32, 2, true, true, {1, 3, 77}},
        {ZL_FLOAT32, 2, false, false, {1, 1, 16384}},
        {ZL_FLOAT32, 1, false, true, {2, 30, 70}},
        {ZL_FLOAT32, 1, true, true, {1, 200, 80}},
        {ZL_FLOAT32, 0, false, true, {2, 3, 2056}, .turned = true},
        {ZL_INT32, 1, true, false, {5, 30, 70}, .turned = true},
        {ZL_FLOAT32, 2, false, true, {9, 10, 80}, .turned = true},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (!test_quick() || i == test_random() % COUNT(cases))
            ZL_SCOPE {
                bool half = cases[i].dtype == ZL_BFLOAT16;
                agree("cumsum", sum_along, (void *)(uintptr_t)&cases[i], half ? 2e-2 : 2e-5);
                if (i % 2)
                    agree("cummax", most_along, (void *)(uintptr_t)&cases[i], 0);
            }
}

TEST(scans_on_devices) {
    on_devices(check_scans);
}

static zl_array with_nan(zl_shape shape, zl_dtype dtype) {
    zl_array x = values(shape, dtype, 8);
    return zl_where(zl_greater(x, zl_scalar(3.99)), zl_scalar(NAN), zl_round(x, 0));
}

struct extreme {
    int64_t rows, columns;
    int axis;
    bool is_max, nans;
    zl_dtype dtype;
};

// Many elements are equal: the first one must be found, in whichever part it is.
static zl_array extreme_at(void *data) {
    const struct extreme *e = data;
    zl_shape shape = ZL_SHAPE(e->rows, e->columns);
    zl_array x = e->nans ? with_nan(shape, e->dtype) : zl_round(values(shape, e->dtype, 8), 0);
    return e->is_max ? zl_argmax_axis(x, e->axis, true) : zl_argmin_axis(x, e->axis, false);
}

// Rows of a subgroup and of a group, whole and in parts; columns, and columns in parts.
static void check_extremes(void) {
    static const struct extreme cases[] = {
        {20, 300, 1, true, true},   {30, 300, 0, false, true},  {1, 60000, 1, true, false},
        {1, 60000, 1, false, true}, {3, 9001, 1, false, false}, {200, 300, 0, true, false},
        {200, 300, 0, false, true}, {9001, 3, 0, true, true},
    };
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16};
    for (size_t i = 0; i < COUNT(cases); i++)
        ZL_SCOPE {
            struct extreme e = cases[i];
            e.dtype = dtypes[i / 2 % 2];
            agree(e.is_max ? "argmax" : "argmin", extreme_at, &e, 0);
        }
}

// The whole device searches a long row, and a second launch finds the best result of its parts.
static void check_long_line(void) {
    zl_array x = zl_retain(zl_add(values(ZL_SHAPE(1, 60000), ZL_FLOAT32, 8), zl_scalar(1)));
    CHECK(zl_eval(x));
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval(zl_argmax_axis(x, 1, false)));
    CHECK_EQ_INT(zl_counter("launches") - launches, 2);
    zl_release(x);
}

TEST(long_lines_are_searched_in_parts_on_devices) {
    on_devices(check_long_line);
}

TEST(extremes_on_devices) {
    on_devices(check_extremes);
}

// Sorts -----------------------------------------------------------------------------------------------------

struct sort_case {
    zl_dtype dtype;
    int64_t lines, n;
};

static zl_array sorted(void *data) {
    const struct sort_case *s = data;
    return zl_sort(values(ZL_SHAPE(s->lines, s->n), s->dtype, 9), -1);
}

static zl_array sorted_at(void *data) {
    const struct sort_case *s = data;
    zl_array x = values(ZL_SHAPE(s->lines, s->n), s->dtype, 9);
    return zl_argsort(dtype_is_float(s->dtype) ? with_nan(ZL_SHAPE(s->lines, s->n), s->dtype) : x, -1);
}

static zl_array parted(void *data) {
    zl_array x = zl_round(values(ZL_SHAPE(3, 1200), ZL_FLOAT32, 9), 1);
    return *(bool *)data ? zl_argpartition(x, 500, -1) : zl_topk(x, 700, -1);
}

static zl_array searched(void *data) {
    zl_array x = zl_sort(zl_round(values(ZL_SHAPE(500), ZL_FLOAT32, 2), 1), -1);
    return zl_searchsorted(x, zl_matrix_transpose(zl_round(values(ZL_SHAPE(20, 30), ZL_FLOAT32, 3), 1)),
                           data);
}

static void check_sorts(void) {
    static const struct sort_case cases[] = {{ZL_FLOAT32, 4, 3000}, {ZL_BFLOAT16, 20, 60},
                                             {ZL_INT8, 3, 700},     {ZL_UINT32, 1, 9000},
                                             {ZL_FLOAT64, 3, 1500}, {ZL_INT64, 7, 100}};
    for (size_t i = 0; i < COUNT(cases); i++)
        if (!test_quick() || i == test_random() % COUNT(cases))
            ZL_SCOPE {
                agree("sort", sorted, (void *)(uintptr_t)&cases[i], 0);
                agree("argsort", sorted_at, (void *)(uintptr_t)&cases[i], 0);
            }
    agree("topk", parted, &(bool){false}, 0);
    agree("argpartition", parted, &(bool){true}, 0);
    agree("searchsorted", searched, (void *)(uintptr_t) "left", 0);
    agree("searchsorted", searched, (void *)(uintptr_t) "right", 0);
}

TEST(sorts_on_devices) {
    on_devices(check_sorts);
}
