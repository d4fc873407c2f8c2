// hlo_words.c - the numbers of a program, which are passed as one argument: a list of 32-bit words that is
// split at the beginning of the program.

#include "device/hlo/hlo.h"

#include <string.h>

static int words_of(zl_dtype dtype) {
    return zl_dtype_size(dtype) == 8 ? 2 : 1;
}

int hlo_word_later(struct hlo_module *m, zl_dtype dtype, struct hlo_tensor *out) {
    struct hlo_words *w = hlo_words(m);
    int at = w->words, size = words_of(dtype);
    *out = hlo_type(dtype, 0, NULL);
    if (!memory_grow(&w->use, &w->use_cap, w->uses + 1, sizeof *w->use) ||
        !memory_grow(&w->word, &w->word_cap, at + size, sizeof *w->word)) {
        hlo_writer(m)->failed = true;
        return -1;
    }
    out->name = hlo_writer(m)->names++;
    w->use[w->uses++] = (struct hlo_word_use){out->name, at, dtype};
    memset(w->word + at, 0, sizeof *w->word * (size_t)size);
    w->words += size;
    return at;
}

struct hlo_tensor hlo_word(struct hlo_module *m, zl_dtype dtype, uint64_t bits) {
    struct hlo_words *w = hlo_words(m);
    struct hlo_tensor y;
    if (!w->is_open)
        return hlo_bits(m, dtype, bits);
    int at = hlo_word_later(m, dtype, &y);
    if (at >= 0)
        memcpy(w->word + at, &bits, sizeof *w->word * (size_t)words_of(dtype));
    return y;
}

// Returns one element of the list as a dtype, as a list of one. as[] caches the list converted to each dtype
// of 4 bytes.
static struct hlo_tensor take_apart(struct hlo_module *m, struct hlo_tensor *as,
                                    const struct hlo_word_use *u) {
    int64_t one[] = {1}, zero[] = {0}, size = (int64_t)zl_dtype_size(u->dtype);
    zl_dtype narrow = size == 1 ? ZL_UINT8 : size == 2 ? ZL_UINT16 : ZL_UINT32;
    if (size == 4) {
        if (!as[u->dtype].ndim)
            as[u->dtype] = hlo_reinterpret(m, as[ZL_UINT32], u->dtype);
        return hlo_cut(m, as[u->dtype], 0, u->word, u->word + 1);
    }
    struct hlo_tensor x = hlo_cut(m, as[ZL_UINT32], 0, u->word, u->word + words_of(u->dtype));
    if (size < 8)
        x = hlo_cast(m, x, narrow);
    return hlo_view(m, x, u->dtype, 1, one, zero, 0);
}

void hlo_words_head(struct hlo_module *m, struct hlo_tensor list) {
    const struct hlo_words *w = hlo_words(m);
    struct hlo_tensor as[ZL_DTYPE_COUNT] = {[ZL_UINT32] = list};
    for (int i = 0; i < w->uses; i++) {
        struct hlo_tensor x = take_apart(m, as, &w->use[i]), y = hlo_type(x.dtype, 0, NULL);
        y.name = w->use[i].name;
        hlo_add(m, "%v = stablehlo.reshape %v : (%t) -> %t\n", &y, &x, &x, &y);
    }
}

// Places ----------------------------------------------------------------------------------------------------

void hlo_starts(struct hlo_module *m, struct hlo_tensor x, const int64_t *place, const int64_t *size,
                struct hlo_tensor *start) {
    zl_dtype dtype = ZL_INT32;
    struct hlo_tensor none;
    for (int i = 0; i < x.ndim; i++)
        dtype = x.dim[i] > INT32_MAX ? ZL_INT64 : dtype;
    none = hlo_number(m, dtype, 0);
    for (int i = 0; i < x.ndim; i++)
        start[i] = size[i] == x.dim[i] ? none : hlo_word(m, dtype, (uint64_t)place[i]);
}

static void add_operands(struct hlo_module *m, int count, const struct hlo_tensor *x, const char *format) {
    for (int i = 0; i < count; i++)
        hlo_add(m, format, &x[i]);
}

struct hlo_tensor hlo_slice_at(struct hlo_module *m, struct hlo_tensor x, const struct hlo_tensor *start,
                               const int64_t *size) {
    struct hlo_tensor y = hlo_type(x.dtype, x.ndim, size);
    if (shape_equal(x.ndim, x.dim, x.ndim, size))
        return x;
    y.name = hlo_writer(m)->names++;
    hlo_add(m, "%v = stablehlo.dynamic_slice %v", &y, &x);
    add_operands(m, x.ndim, start, ", %v");
    hlo_add(m, ", sizes = [%l] : (%t", x.ndim, size, &x);
    add_operands(m, x.ndim, start, ", %t");
    hlo_add(m, ") -> %t\n", &y);
    return y;
}

struct hlo_tensor hlo_update_at(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor u,
                                const struct hlo_tensor *start) {
    struct hlo_tensor y = x;
    bool is_bounded = hlo_is_bounded(&x) || hlo_is_bounded(&u); // then equal bounds are no equal sizes
    if (!is_bounded && shape_equal(x.ndim, x.dim, u.ndim, u.dim))
        return u;
    y.name = hlo_writer(m)->names++;
    hlo_add(m, "%v = stablehlo.dynamic_update_slice %v, %v", &y, &x, &u);
    add_operands(m, x.ndim, start, ", %v");
    hlo_add(m, " : (%t, %t", &x, &u);
    add_operands(m, x.ndim, start, ", %t");
    hlo_add(m, ") -> %t\n", &y);
    return y;
}
