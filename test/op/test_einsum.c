// test_einsum.c - tensordot, vecdot, kron and einsum compared with sums written as loops.

#include <string.h>

#include "base/base.h"
#include "op/op_test.h"

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_FLOAT32)

TEST(tensordot_of_axes) {
    zl_array a = RANGE(2, 3), b = RANGE(3, 2);
    CHECK_ARRAY(zl_tensordot(a, b, 1), ZL_FLOAT32, ZL_SHAPE(2, 2), 10, 13, 28, 40);
    CHECK_ARRAY(zl_tensordot(a, a, 2), ZL_FLOAT32, ZL_SCALAR, 55);
    CHECK_ARRAY(zl_tensordot(RANGE(2), RANGE(3), 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 0, 0, 0, 0, 1, 2);
    CHECK_ARRAY(zl_tensordot_axes(a, b, ZL_AXES(0, 1), ZL_AXES(-1, 0)), ZL_FLOAT32, ZL_SCALAR, 50);
    CHECK_ARRAY(zl_tensordot_axes(a, b, ZL_AXES(0), ZL_AXES(1)), ZL_FLOAT32, ZL_SHAPE(3, 3), 3, 9, 15, 4, 14,
                24, 5, 19, 33);
    CHECK_ARRAY(zl_tensordot(zl_zeros(ZL_SHAPE(2, 0), ZL_FLOAT32), zl_zeros(ZL_SHAPE(0, 1), ZL_FLOAT32), 1),
                ZL_FLOAT32, ZL_SHAPE(2, 1), 0, 0);
    CHECK_ERROR(ZL_ERROR_AXIS, zl_tensordot(a, b, 3));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_tensordot(a, b, -1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_tensordot(a, a, 1));
    CHECK_STR(test_last_error(),
              "zl_tensordot: axis 1 of shape (2, 3) and axis 0 of shape (2, 3) differ in size");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_tensordot_axes(a, b, ZL_AXES(0), ZL_AXES(0, 1)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_tensordot_axes(a, a, ZL_AXES(0, 0), ZL_AXES(0, 1)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_tensordot(zl_astype(a, ZL_INT32), zl_astype(b, ZL_INT32), 1));
    CHECK_HAS(test_last_error(), "zl_tensordot: ");
}

TEST(vecdot_and_kron) {
    CHECK_ARRAY(zl_vecdot(RANGE(2, 3), RANGE(1, 3), -1), ZL_FLOAT32, ZL_SHAPE(2), 5, 14);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_vecdot(RANGE(2, 3), RANGE(3), -1)); // -1 is another axis there, which MLX
                                                                       // rejects too
    CHECK_ARRAY(zl_vecdot(RANGE(2, 3), RANGE(2, 3), 0), ZL_FLOAT32, ZL_SHAPE(3), 9, 17, 29);
    zl_array z = zl_full(ZL_SHAPE(2), zl_scalar_complex(1, 2), ZL_COMPLEX64);
    CHECK_EQ_F64(zl_item(zl_real(zl_vecdot(z, z, 0))), 10);
    CHECK_ERROR(ZL_ERROR_AXIS, zl_vecdot(zl_scalar(1), RANGE(2), 0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_vecdot(RANGE(2), RANGE(3), 0));
    CHECK_ARRAY(zl_kron(RANGE(2), RANGE(3)), ZL_FLOAT32, ZL_SHAPE(6), 0, 0, 0, 0, 1, 2);
    CHECK_ARRAY(zl_kron(RANGE(2, 1), RANGE(2)), ZL_FLOAT32, ZL_SHAPE(2, 2), 0, 0, 0, 1);
    CHECK_ARRAY(zl_kron(zl_scalar(2), RANGE(2)), ZL_FLOAT32, ZL_SHAPE(2), 0, 2);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_kron(RANGE(2), zl_zeros(ZL_SHAPE(0), ZL_FLOAT32)));
}

// einsum ----------------------------------------------------------------------------------------------------

// A sum by its definition, for texts of letters with an arrow: loops over all values of all letters.
struct naive {
    int64_t dim[128], at[128];
    char all[64]; // letters that occur
    int count;
};

static double term_of(const struct naive *n, const char **letter, zl_array x, const double *values) {
    int64_t at = 0;
    for (int i = 0; i < x->ndim; i++, ++*letter)
        at = at * x->dim[i] + (x->dim[i] == 1 ? 0 : n->at[(int)**letter]);
    return values[at];
}

static bool next(struct naive *n) {
    for (int i = n->count - 1; i >= 0; i--) {
        int c = n->all[i];
        if (++n->at[c] < n->dim[c])
            return true;
        n->at[c] = 0;
    }
    return false;
}

static void read_letters(struct naive *n, const char *text, const zl_array *x) {
    for (int axis = 0; *text != '-'; text++) {
        if (*text == ',') {
            x++;
            axis = 0;
            continue;
        }
        int c = *text;
        if (!strchr(n->all, c)) {
            n->all[n->count++] = *text;
            n->dim[c] = 1;
        }
        n->dim[c] = MAX_OF(n->dim[c], (*x)->dim[axis]);
        axis++;
    }
}

// Returns the largest difference from the result of einsum.
static double error_of(const char *text, int count, const zl_array *x, zl_array y) {
    struct naive n = {{0}};
    double want[4096] = {0}, worst = 0;
    const double *values[8], *got = op_test_values(y);
    for (int i = 0; i < count; i++)
        values[i] = zl_data_f64(x[i]);
    read_letters(&n, text, x);
    do {
        double product = 1;
        int64_t at = 0;
        const char *letter = text;
        for (int i = 0; i < count; i++, letter++)
            product *= term_of(&n, &letter, x[i], values[i]);
        for (letter = strchr(text, '>') + 1; *letter; letter++)
            at = at * n.dim[(int)*letter] + n.at[(int)*letter];
        want[at] += product;
    } while (next(&n));
    for (int64_t i = 0; i < zl_size(y); i++) {
        double apart = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
        worst = MAX_OF(worst, apart);
    }
    return worst;
}

static const int64_t sizes[] = {
    ['i' - 'a'] = 2, ['j' - 'a'] = 3, ['k' - 'a'] = 4, ['l' - 'a'] = 5, ['m' - 'a'] = 2};

// Makes an operand for each term of the text, with the sizes above; some axes have size 1 and broadcast.
static int make_operands(const char *text, bool stretch, zl_array *x) {
    int count = 0, ndim = 0;
    int64_t dim[8];
    for (;; text++) {
        if (*text != ',' && *text != '-') {
            bool one = stretch && test_between(0, 4) == 0;
            dim[ndim++] = one ? 1 : sizes[*text - 'a'];
            continue;
        }
        x[count] = op_test_random((zl_shape){dim, ndim}, ZL_FLOAT64, -1, 1);
        CHECK(zl_eval(x[count++]));
        ndim = 0;
        if (*text == '-')
            return count;
    }
}

TEST(einsum_is_a_sum_of_products) {
    static const char *const texts[] = {
        "ij->ij",     "ij->ji",          "ij->",        "ij->j",          "ii->i",        "ii->",
        "iji->j",     "ij,jk->ik",       "ij,jk->ki",   "ij,ij->",        "i,j->ij",      "i,i->i",
        "ij,ij->ij",  "ijk,ilk->ijl",    "ijk,jil->kl", "ij,k->kj",       "ij,jk,kl->il", "ij,jk,kl->",
        "i,j,k->kji", "ij,ij,ij->i",     "iij,jkk->ik", "ijk,jl,km->ilm", "ij,kl->",      "ijk->k",
        "i,ij,j->",   "ij,jk,kl,lm->im", "ii,ii->i",    "ij,jj->i",       "im,im->mi",    ",ij->j",
        "i,,j->ij",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        for (int stretch = 0; stretch < 3; stretch++)
            ZL_SCOPE {
                zl_array x[8];
                bool repeats = strstr(texts[i], "ii") || strstr(texts[i], "iji") || strstr(texts[i], "jj") ||
                               strstr(texts[i], "kk");
                int count = make_operands(texts[i], stretch && !repeats, x);
                zl_array y = zl_einsum(texts[i], x, count);
                if (!CHECK(y && zl_eval(y)) || !CHECK(error_of(texts[i], count, x, y) < 1e-12))
                    test_note("%s: %s", texts[i], zl_error() ? zl_error() : "other numbers");
            }
}

#define EINSUM(text, ...) \
    zl_einsum(text, (zl_array[]){__VA_ARGS__}, (int)(sizeof((zl_array[]){__VA_ARGS__}) / sizeof(zl_array)))

TEST(einsum_without_arrow_and_with_dots) {
    zl_array a = RANGE(2, 3);
    REQUIRE(zl_eval(a));
    CHECK_ARRAY(EINSUM("ji", a), ZL_FLOAT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_ARRAY(EINSUM("ij,ij", a, a), ZL_FLOAT32, ZL_SCALAR, 55);
    CHECK_ARRAY(EINSUM(" b a , a ", a, RANGE(3)), ZL_FLOAT32, ZL_SHAPE(2), 5, 14);
    CHECK_ARRAY(EINSUM("aB", a), ZL_FLOAT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5); // B comes before a
    CHECK_ARRAY(EINSUM("...i->...", a), ZL_FLOAT32, ZL_SHAPE(2), 3, 12);
    CHECK_ARRAY(EINSUM("...,...", a, RANGE(3)), ZL_FLOAT32, ZL_SHAPE(2, 3), 0, 1, 4, 0, 4, 10);
    CHECK_ARRAY(EINSUM("i...->...i", a), ZL_FLOAT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_ARRAY(EINSUM("...ij,...jk->...ik", zl_expand_dims(a, ZL_AXES(0)), zl_transpose(a, ZL_ALL)),
                ZL_FLOAT32, ZL_SHAPE(1, 2, 2), 5, 14, 14, 50);
    zl_array n = zl_astype(a, ZL_INT8);
    CHECK_ARRAY(EINSUM("ij,ij->i", n, n), ZL_INT32, ZL_SHAPE(2), 5, 50);
    CHECK_ARRAY(
        EINSUM("ij,jk->ik", zl_zeros(ZL_SHAPE(2, 0), ZL_FLOAT32), zl_zeros(ZL_SHAPE(0, 1), ZL_FLOAT32)),
        ZL_FLOAT32, ZL_SHAPE(2, 1), 0, 0);
}

TEST(einsum_refuses) {
    zl_array a = RANGE(2, 3);
    CHECK_ERROR(ZL_ERROR_VALUE, EINSUM("ij,jk->ik", a));
    CHECK_STR(test_last_error(), "zl_einsum: 'ij,jk->ik' is for 2 operands, but there are 1");
    CHECK_ERROR(ZL_ERROR_SHAPE, EINSUM("ijk->i", a));
    CHECK_ERROR(ZL_ERROR_SHAPE, EINSUM("ijk...->i", a));
    CHECK_ERROR(ZL_ERROR_SHAPE, EINSUM("ii", a));
    CHECK_ERROR(ZL_ERROR_SHAPE, EINSUM("ij,ik->jk", a, RANGE(3, 2)));
    CHECK_ERROR(ZL_ERROR_SYNTAX, EINSUM("ij->ii", a));
    CHECK_ERROR(ZL_ERROR_SYNTAX, EINSUM("ij->k", a));
    CHECK_ERROR(ZL_ERROR_SYNTAX, EINSUM("i+", a));
    CHECK_ERROR(ZL_ERROR_SYNTAX, EINSUM("i..", a));
    CHECK_ERROR(ZL_ERROR_SYNTAX, EINSUM("......", a));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_einsum(NULL, &a, 1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_einsum("i", &a, 0));
    CHECK(!EINSUM("ij", NULL) && !zl_error());
}

TEST(einsum_paths) {
    zl_array x[] = {RANGE(2, 3), RANGE(3, 4), RANGE(4, 5)};
    char *path = zl_einsum_path("ij,jk,kl->il", x, 3);
    CHECK_STR(path,
              "1,2 0,1\n  Complete contraction:  ij,jk,kl->il\n         Naive scaling:  4\n"
              "     Optimized scaling:  3\n      Naive FLOP count:  360\n  Optimized FLOP count:  180\n");
    zl_free(path);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_einsum_path("ij", x, 3));
}

RULES(einsum_product, ZL_SHAPE(2, 3), EINSUM("ij,kj,j->ki", x, zl_square(x), zl_sum_axis(x, 0, false)))
RULES(einsum_diagonal, ZL_SHAPE(3, 3), EINSUM("ii,ij->j", x, x))
RULES(tensordot, ZL_SHAPE(2, 3), zl_tensordot_axes(x, zl_square(x), ZL_AXES(0), ZL_AXES(0)))
RULES(kron, ZL_SHAPE(2, 2), zl_kron(x, zl_square(x)))
RULES(vecdot, ZL_SHAPE(2, 3), zl_vecdot(x, zl_square(x), 0))
