// test_cpu_layout.c - elementwise ops and copies over random layouts, against a loop over positions.

#include "random_view.h"

#include "graph/graph.h"

static int rounds(int quick, int usual) {
    return test_quick() ? quick : test_long() ? 10 * usual : usual;
}

static const char *shape_of(zl_array a) {
    return array_text(a);
}

// Returns whether the result of a binary op on integers is that of its operands.
static bool holds(zl_array y, const struct view *a, const struct view *b, const int64_t *dim, int ndim,
                  double (*op)(double, double)) {
    int64_t at[VIEW_AXES] = {0}, i = 0;
    int parts = a->dtype == ZL_COMPLEX64 ? 2 : 1;
    if (!zl_eval(y))
        return false;
    do {
        for (int part = 0; part < parts; part++)
            if (dense_at(y, i, part) != op(view_at(a, ndim, at, part), view_at(b, ndim, at, part)))
                return false;
        i++;
    } while (next_position(ndim, dim, at));
    return true;
}

static double add(double a, double b) {
    return a + b;
}
static double first(double a, double b) {
    (void)b;
    return a;
}

TEST(add_of_random_layouts) {
    for (int round = 0; round < rounds(60, 400); round++) {
        ZL_SCOPE {
            int64_t dim[VIEW_AXES], out[VIEW_AXES];
            int ndim = view_shape(20000, dim);
            zl_dtype dtype = (zl_dtype)test_between(ZL_UINT8, ZL_DTYPE_COUNT - 1);
            struct view a = view_broadcast(dtype, ndim, dim), b = view_broadcast(dtype, ndim, dim);
            zl_array y = zl_contiguous(zl_add(a.array, b.array), false);
            REQUIRE(y);
            for (int i = 0; i < y->ndim; i++)
                out[i] = y->dim[i];
            if (!CHECK(holds(y, &a, &b, out, y->ndim, add)))
                test_note("%s: %s + %s", zl_dtype_name(dtype), shape_of(a.array), shape_of(b.array));
        }
    }
}

TEST(copies_of_random_layouts) {
    for (int round = 0; round < rounds(60, 400); round++) {
        ZL_SCOPE {
            int64_t dim[VIEW_AXES];
            int ndim = view_shape(40000, dim);
            zl_dtype dtype = (zl_dtype)test_between(0, ZL_DTYPE_COUNT - 1);
            struct view a = view_random(dtype, ndim, dim);
            if (!CHECK(holds(zl_contiguous(a.array, false), &a, &a, dim, ndim, first)))
                test_note("%s %s, strides %s", zl_dtype_name(dtype), shape_of(a.array),
                          shape_text(ndim, a.stride));
        }
    }
}

TEST(casts_of_random_layouts) {
    for (int round = 0; round < rounds(60, 400); round++) {
        ZL_SCOPE {
            int64_t dim[VIEW_AXES];
            int ndim = view_shape(10000, dim);
            zl_dtype from = (zl_dtype)test_between(0, ZL_COMPLEX64 - 1),
                     to = (zl_dtype)test_between(ZL_INT8, ZL_COMPLEX64 - 1);
            struct view a = view_random(from, ndim, dim);
            if (!CHECK(holds(zl_contiguous(zl_astype(a.array, to), false), &a, &a, dim, ndim, first)))
                test_note("%s to %s of %s", zl_dtype_name(from), zl_dtype_name(to), shape_of(a.array));
        }
    }
}

TEST(where_of_random_layouts) {
    for (int round = 0; round < rounds(30, 200); round++) {
        ZL_SCOPE {
            int64_t dim[VIEW_AXES], at[VIEW_AXES] = {0}, i = 0;
            int ndim = view_shape(10000, dim), wrong = 0;
            zl_dtype dtype = (zl_dtype)test_between(0, ZL_COMPLEX64 - 1);
            struct view c = view_random(ZL_BOOL, ndim, dim), a = view_broadcast(dtype, ndim, dim),
                        b = view_broadcast(dtype, ndim, dim);
            zl_array y = zl_contiguous(zl_where(c.array, a.array, b.array), false);
            REQUIRE(zl_eval(y));
            do {
                const struct view *from = view_at(&c, ndim, at, 0) != 0 ? &a : &b;
                wrong += dense_at(y, i++, 0) != view_at(from, ndim, at, 0);
            } while (next_position(ndim, dim, at));
            CHECK_EQ_INT(wrong, 0);
        }
    }
}

static bool lies_as(zl_array y, zl_array x) {
    return shape_same_layout(x->ndim, x->dim, array_stride(x), array_stride(y));
}

TEST(results_lie_as_their_inputs) {
    zl_array plain = zl_reshape(zl_arange(0, 60, 1, ZL_FLOAT32), ZL_SHAPE(3, 4, 5));
    zl_array x = zl_transpose(plain, ZL_AXES(2, 0, 1)), rows = zl_contiguous(x, false);
    zl_array like[] = {
        zl_negative(x),    zl_add(x, zl_scalar(1)), zl_multiply(zl_ones(ZL_SHAPE(1), ZL_FLOAT32), x),
        zl_subtract(x, x), zl_astype(x, ZL_INT32),  zl_where(zl_less(x, zl_scalar(9)), x, zl_exp(x))};
    for (size_t i = 0; i < COUNT(like); i++)
        CHECK(lies_as(like[i], x));
    zl_array gaps = zl_slice(x, ZL_SHAPE(0, 0, 0), ZL_SHAPE(5, 3, 4), ZL_SHAPE(1, 2, 1));
    zl_array stretched = zl_broadcast_to(zl_ones(ZL_SHAPE(3, 1), ZL_FLOAT32), ZL_SHAPE(3, 4));
    zl_array row_major[] = {zl_add(x, rows), zl_negative(gaps), zl_add(x, zl_ones(ZL_SHAPE(4), ZL_FLOAT32)),
                            zl_negative(stretched)};
    for (size_t i = 0; i < COUNT(row_major); i++)
        CHECK(zl_is_contiguous(row_major[i]));
    CHECK_EQ_INT(zl_item_int(zl_all(zl_equal(zl_negative(x), zl_negative(rows)))), 1);
}

// A result may take over the memory of an operand with the same layout, and of no other.
TEST(transposed_results_take_over_inputs_of_their_layout) {
    enum { SIDE = 40 };
    zl_array x = zl_reshape(zl_arange_int(0, SIDE * SIDE, 1, ZL_INT32), ZL_SHAPE(SIDE, SIDE));
    zl_array dense = zl_add(x, zl_scalar_int(1)), turned = zl_negative(zl_transpose(dense, ZL_ALL));
    int64_t donations = zl_counter("donations");
    const int32_t *y = zl_data_i32(zl_transpose(zl_add(turned, zl_scalar_int(1)), ZL_ALL)); // -x
    REQUIRE(y);
    CHECK(zl_counter("donations") > donations);
    for (int i = 0; i < SIDE * SIDE; i++)
        CHECK_EQ_INT(y[i], -i);
}

// More than one thread, and every layout of a tile, on sizes that are divided.
TEST(large_layouts) {
    static const struct {
        int64_t dim[3], a[3], b[3];
    } cases[] = {
        {{300, 40, 50}, {2000, 50, 1}, {0, 0, 1}}, // one row for all
        {{300, 40, 50}, {2000, 50, 1}, {1, 0, 0}}, // one element per plane
        {{300, 40, 50}, {50, 15000, 1}, {2000, 50, 1}},
        {{1, 700, 900}, {0, 1, 700}, {0, 900, 1}}, // transposed
        {{1, 700, 900}, {0, 1, 700}, {0, 1, 700}},
        {{3, 500, 400}, {1, 3, 1500}, {200000, 400, 1}}, // channels last to channels first
        {{1, 1, 600000}, {0, 0, 2}, {0, 0, 1}},          // every other element
        {{1, 1, 600000}, {0, 0, 1}, {0, 0, 0}},
        {{1, 3, 200000}, {0, 200001, 1}, {0, 1, 0}}, // padded rows
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        ZL_SCOPE {
            const int64_t *d = cases[k].dim, *s = cases[k].a, *t = cases[k].b;
            int64_t spans[2] = {1, 1}, wrong = 0;
            for (int i = 0; i < 3; i++) {
                spans[0] += (d[i] - 1) * s[i];
                spans[1] += (d[i] - 1) * t[i];
            }
            zl_array x = zl_arange_int(0, spans[0], 1, ZL_INT32), y = zl_arange_int(0, spans[1], 1, ZL_INT32);
            zl_array a = zl_as_strided(x, (zl_shape){d, 3}, (zl_shape){s, 3}, 0);
            zl_array b = zl_as_strided(y, (zl_shape){d, 3}, (zl_shape){t, 3}, 0);
            zl_array results[2] = {zl_contiguous(zl_add(a, b), false), zl_contiguous(a, false)};
            REQUIRE(zl_eval_all(2, results));
            const int32_t *sum = zl_data_i32(results[0]), *copy = zl_data_i32(results[1]);
            REQUIRE(sum && copy);
            for (int64_t i = 0, n = 0; i < d[0]; i++)
                for (int64_t j = 0; j < d[1]; j++)
                    for (int64_t l = 0; l < d[2]; l++, n++) {
                        int64_t u = i * s[0] + j * s[1] + l * s[2], v = i * t[0] + j * t[1] + l * t[2];
                        wrong += sum[n] != u + v || copy[n] != u;
                    }
            if (!CHECK_EQ_INT(wrong, 0))
                test_note("case %zu", k);
        }
    }
}

// Compares an op on columns that are broadcast along runs with the same op on contiguous copies of them.
static bool agrees(zl_array y, zl_array want) {
    zl_array same = zl_array_equal(y, want, true);
    return same && zl_item(same) == 1;
}

static zl_array spread(zl_array column, zl_array like) {
    return zl_contiguous(zl_broadcast_to(column, zl_shape_of(like)), false);
}

TEST(columns_serve_for_runs) {
    static const int64_t runs[] = {8, 16, 24, 64, 128, 200, 1024};
    for (size_t i = 0; i < COUNT(runs); i++)
        ZL_SCOPE {
            int64_t half = 20000 / runs[i], rows = 2 * half;
            zl_array x =
                zl_reshape(zl_arange(0, (double)(rows * runs[i]), 1, ZL_FLOAT32), ZL_SHAPE(half, 2, runs[i]));
            zl_array plain =
                zl_reshape(zl_arange(1, (double)(rows + 1), 1, ZL_FLOAT32), ZL_SHAPE(half, 2, 1));
            zl_array full = spread(plain, x),
                     is_odd = zl_equal(zl_remainder(plain, zl_scalar(2)), zl_scalar(1));
            if (!CHECK(zl_eval_all(4, (zl_array[]){x, plain, full, is_odd})))
                break;
            CHECK(agrees(zl_subtract(x, plain), zl_subtract(x, full)));
            CHECK(agrees(zl_subtract(plain, x), zl_subtract(full, x)));
            CHECK(agrees(zl_less(x, plain), zl_less(x, full)));
            CHECK(agrees(zl_where(is_odd, x, zl_scalar(3)), zl_where(spread(is_odd, x), x, zl_scalar(3))));
            CHECK(agrees(zl_where(zl_less(x, full), plain, zl_scalar(3)),
                         zl_where(zl_less(x, full), full, zl_scalar(3))));
            zl_array pair[2], want[2];
            CHECK(zl_divmod(x, plain, pair) && zl_divmod(x, full, want));
            CHECK(agrees(pair[0], want[0]) && agrees(pair[1], want[1]));
            CHECK(agrees(zl_add(zl_multiply(zl_add(x, plain), zl_scalar(2)), zl_multiply(plain, plain)),
                         zl_add(zl_multiply(zl_add(x, full), zl_scalar(2)), zl_multiply(full, full))));
        }
}

TEST(ranks_beyond_any_table) {
    enum { RANK = 30 };
    int64_t dim[RANK];
    int axes[RANK];
    for (int i = 0; i < RANK; i++) {
        dim[i] = i < 10 ? 2 : 1;
        axes[i] = RANK - 1 - i;
    }
    zl_array x = zl_reshape(zl_arange_int(0, 1024, 1, ZL_INT32), (zl_shape){dim, RANK});
    zl_array turned = zl_transpose(x, (zl_axes){axes, RANK});
    const int32_t *y = zl_data_i32(zl_flatten(zl_add(turned, turned), 0, -1));
    REQUIRE(y);
    for (int i = 0; i < 1024; i++) {
        int mirrored = 0;
        for (int bit = 0; bit < 10; bit++)
            mirrored |= (i >> bit & 1) << (9 - bit);
        CHECK_EQ_INT(y[i], 2 * mirrored);
    }
}

// Fields of an array of structs are views whose stride is that of the struct.
TEST(fields_of_structs) {
    struct particle {
        char kind;
        double mass;
        float position[3];
    } list[1000];
    for (int i = 0; i < 1000; i++)
        list[i] = (struct particle){(char)i, i, {(float)i, (float)(2 * i), (float)(3 * i)}};
    zl_array records = zl_from_records(list, ZL_SHAPE(1000), sizeof list[0], NULL);
    zl_array position = zl_field(records, offsetof(struct particle, position), ZL_FLOAT32, ZL_SHAPE(3));
    zl_array mass = zl_field(records, offsetof(struct particle, mass), ZL_FLOAT64, ZL_SCALAR);
    CHECK_EQ_F64(zl_item(zl_sum(mass)), 499500);
    const float *y = zl_data_f32(zl_sum_axis(zl_add(position, position), 1, false));
    REQUIRE(y);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ_F64(y[i], 12.0 * i);
}

// Results do not depend on how work is divided.
TEST(threads_change_no_bit) {
    int threads = zl_threads();
    zl_array x = zl_multiply(zl_arange(0, 300000, 1, ZL_FLOAT32), zl_scalar(0.37)), one[4], many[4];
    REQUIRE(zl_eval(zl_retain(x)));
    for (int round = 0; round < 2; round++) {
        zl_array *y = round ? many : one;
        CHECK(zl_set_threads(round ? 4 : 1));
        zl_array m = zl_reshape(x, ZL_SHAPE(300, 1000));
        y[0] = zl_sum(x);
        y[1] = zl_sum_axis(m, 0, false);
        y[2] = zl_sum_axis(m, 1, false);
        y[3] =
            zl_add(zl_exp(zl_negative(m)), zl_slice(m, ZL_SHAPE(0, 0), ZL_SHAPE(300, 1000), ZL_SHAPE(1, 1)));
        for (int i = 0; i < 4; i++)
            REQUIRE(zl_eval(zl_retain(y[i])));
    }
    CHECK(zl_set_threads(threads));
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(zl_item_int(zl_all(zl_equal(one[i], many[i]))), 1);
        zl_release(one[i]);
        zl_release(many[i]);
    }
    zl_release(x);
}
