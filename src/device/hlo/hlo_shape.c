// hlo_shape.c - renders ops that create, join and move elements.

#include "device/hlo/hlo.h"

// Renders arange: element i is start + i * step. Integers wrap around, floats are rounded once.
bool hlo_arange(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                struct hlo_tensor *out) {
    enum { START, STOP, STEP };
    zl_array y = call_first(c);
    const int64_t *arg = call_args(c);
    bool is_integer = c->op == &op_arange_int;
    zl_dtype wide = is_integer ? ZL_INT64 : ZL_FLOAT64;
    struct hlo_tensor number = hlo_iota(m, wide, 1, y->dim, 0), step = hlo_word(m, wide, (uint64_t)arg[STEP]),
                      start = hlo_word(m, wide, (uint64_t)arg[START]);
    (void)in;
    out[0] = hlo_binary(m, TILE_ADD, start, hlo_binary(m, TILE_MUL, number, step));
    out[0] = hlo_cast(m, out[0], (zl_dtype)y->dtype);
    return true;
}

// Joins parts in a bounded array: the first part, padded to the size of the next step, into which the others
// are written. A word of the program holds the real size.
static struct hlo_tensor join_bounded(struct hlo_module *m, zl_array y, int parts, struct hlo_tensor *part,
                                      const int64_t *size, int axis) {
    int64_t none[HLO_RANK] = {0}, high[HLO_RANK] = {0}, room = hlo_step(y->dim[axis]), at = size[0];
    struct hlo_tensor x = part[0], start[HLO_RANK];
    hlo_writer(m)->bounded_ok++;
    high[axis] = room - x.dim[axis];
    x = high[axis] ? hlo_pad(m, x, hlo_number(m, x.dtype, 0), none, high, none) : x;
    for (int i = 1; i < parts; at += size[i++]) {
        for (int k = 0; k < x.ndim; k++)
            start[k] = k == axis ? hlo_word(m, ZL_INT32, (uint64_t)at) : hlo_number(m, ZL_INT32, 0);
        x = hlo_update_at(m, x, part[i], start);
    }
    hlo_writer(m)->bounded_ok--;
    x.real[axis] = hlo_word(m, ZL_INT32, (uint64_t)at).name + 1;
    return x;
}

// Returns whether the result is an array that grows: its size along the axis varies, and no part but the
// first is bounded, along that axis alone.
static bool grows(struct hlo_module *m, zl_array y, int parts, const struct hlo_tensor *part, int axis) {
    bool ok = hlo_varies(m, y) >> axis & 1 && y->dim[axis] > 1 && hlo_step(y->dim[axis]) <= INT32_MAX;
    for (int i = 0; i < parts; i++)
        for (int k = 0; k < part[i].ndim; k++)
            ok &= !part[i].real[k] || (i == 0 && k == axis);
    return ok;
}

bool hlo_concatenate(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                     struct hlo_tensor *out) {
    struct hlo_tensor part[HLO_OPERANDS];
    int64_t size[HLO_OPERANDS];
    int parts = 0, axis = (int)call_args(c)[0];
    for (int i = 0; i < c->inputs; i++)
        if (hlo_size(&in[i])) {
            size[parts] = c->in[i]->dim[axis];
            part[parts++] = in[i];
        }
    out[0] = grows(m, call_first(c), parts, part, axis)
                 ? join_bounded(m, call_first(c), parts, part, size, axis)
                 : hlo_join(m, parts, part, axis);
    return true;
}

bool hlo_pad_array(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    int64_t between[HLO_AXES] = {0};
    const int64_t *low = call_args(c);
    out[0] = hlo_pad(m, in[0], hlo_reshape(m, in[1], 0, NULL), low, low + in[0].ndim, between);
    return true;
}

bool hlo_divmod(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                struct hlo_tensor *out) {
    out[0] = hlo_binary(m, op_quotient_row((zl_dtype)c->in[0]->dtype), in[0], in[1]);
    out[1] = hlo_binary(m, TILE_REM, in[0], in[1]);
    return true;
}

// Random bits -----------------------------------------------------------------------------------------------

static struct hlo_tensor rotate(struct hlo_module *m, struct hlo_tensor x, int by) {
    struct hlo_tensor left = hlo_binary(m, TILE_SHL, x, hlo_number(m, ZL_UINT32, by));
    return hlo_binary(m, TILE_OR, left, hlo_binary(m, TILE_SHR, x, hlo_number(m, ZL_UINT32, 32 - by)));
}

// Threefry-2x32 with 20 rounds, as op/threefry.h has it, of keys (n, 1) and counters (1, pairs).
static void threefry(struct hlo_module *m, const struct hlo_tensor *key, struct hlo_tensor *x,
                     struct hlo_tensor *y) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    struct hlo_tensor k[3] = {key[0], key[1], hlo_binary(m, TILE_XOR, key[0], key[1])};
    k[2] = hlo_binary(m, TILE_XOR, k[2], hlo_number(m, ZL_UINT32, 0x1bd11bda));
    *x = hlo_binary(m, TILE_ADD, *x, k[0]);
    *y = hlo_binary(m, TILE_ADD, *y, k[1]);
    for (int i = 0; i < 5; i++) {
        for (int r = 0; r < 4; r++) {
            *x = hlo_binary(m, TILE_ADD, *x, *y);
            *y = hlo_binary(m, TILE_XOR, rotate(m, *y, rotations[i % 2][r]), *x);
        }
        *x = hlo_binary(m, TILE_ADD, *x, k[(i + 1) % 3]);
        *y = hlo_binary(m, TILE_ADD, hlo_binary(m, TILE_ADD, *y, k[(i + 2) % 3]),
                        hlo_number(m, ZL_UINT32, i + 1));
    }
}

// Renders random bits. The words of a key are the first words of all its counters, then the second ones.
bool hlo_random_bits(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                     struct hlo_tensor *out) {
    zl_array y = call_first(c);
    int64_t keys = hlo_size(&in[0]) / 2, each = y->size / keys, item = (int64_t)array_item(y),
            words = (each * item + 3) / 4;
    int64_t pairs = (words + 1) / 2, lists[] = {keys, 2}, counters[] = {1, pairs};
    struct hlo_tensor list = hlo_reshape(m, in[0], 2, lists), key[2], word[2];
    for (int i = 0; i < 2; i++)
        key[i] = hlo_cut(m, list, 1, i, i + 1);
    word[0] = hlo_iota(m, ZL_UINT32, 2, counters, 1);
    word[1] = hlo_binary(m, TILE_ADD, word[0], hlo_number(m, ZL_UINT32, (double)pairs));
    if (words % 2) // the last counter has no second word
        word[1] =
            hlo_choose(m, hlo_binary(m, TILE_LT, word[0], hlo_number(m, ZL_UINT32, (double)(words / 2))),
                       word[1], hlo_number(m, ZL_UINT32, 0));
    threefry(m, key, &word[0], &word[1]);
    word[1] = hlo_cut(m, word[1], 1, 0, words / 2);
    struct hlo_tensor bits = words > 1 ? hlo_join(m, 2, word, 1) : word[0];
    int64_t dim[] = {keys, each}, stride[] = {words * 4 / item, 1};
    out[0] = hlo_reshape(m, hlo_view(m, bits, (zl_dtype)y->dtype, 2, dim, stride, 0), y->ndim, y->dim);
    return true;
}
