// kernels_create.c - arrays made of nothing: numbers counted up, and random bits.

#include "device/kernels/kernels.h"
#include "op/ops.h"

struct recipe {
    int32_t to, from, wide; // dtypes
    char name[8];           // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// Counting up ------------------------------------------------------------------------------------------------------

static bool write_count(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype to = (zl_dtype)w->r->to, from = (zl_dtype)w->r->from;
    const char *type = kernel_memory_type(from), *result = kernel_memory_type(to);
    kernel_begin(out, w->dialect, w->r->wide);
    if (!kernel_element(out, tile_cast_kernel(to, from), w->dialect, "narrow"))
        return false;
    text_add(out,
             "KERNEL zl_kernel(GLOBAL %s *y, %s start, %s step, idx n) {\n"
             "    idx i = GROUP * THREADS + THREAD;\n    if (i >= n)\n        return;\n    %s value = %s;\n"
             "    %s last;\n    narrow((%s *)&last, &value);\n    y[i] = last;\n}\n",
             result, type, type, type,
             from == ZL_FLOAT64 ? "zl_fma_f64((f64)i, step, start)"
                                : "(i64)((u64)start + (u64)i * (u64)step)",
             result, to == ZL_COMPLEX64 ? "f32" : result);
    return true;
}

static bool count_up(const struct kernel_place *p, const struct call *c, zl_dtype from) {
    zl_array y = call_first(c);
    struct kernel_call k;
    kernel_begin_call(&k);
    struct recipe r = {y->dtype, (int32_t)from, y->size > INT32_MAX / 2, "count"};
    void *kernel = kernel_find(p, &r, sizeof r, write_count, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y);
    kernel_add_memory(&k, to);
    kernel_add(&k, &call_args(c)[0], 8); // a double is kept as its bits
    kernel_add(&k, &call_args(c)[2], 8);
    kernel_add_int(&k, y->size, r.wide);
    return kernel && to && kernel_launch(p, kernel, (y->size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

bool kernel_arange(const struct kernel_place *p, const struct call *c) {
    return count_up(p, c, ZL_FLOAT64);
}

bool kernel_arange_int(const struct kernel_place *p, const struct call *c) {
    return count_up(p, c, ZL_INT64);
}

// Random bits ------------------------------------------------------------------------------------------------------

// Threefry-2x32 with 20 rounds, as op/threefry.h has it: counter i of a key gives its words i and pairs + i. Words are
// stored byte by byte where the part of a key does not end with a word.
static const char bits[] =
    "#define ROUND(turn) x += y; y = ((y << turn) | (y >> (32 - turn))) ^ x;\n"
    "#define ROUNDS(a, b, c, d, first, second, number) \\\n"
    "    ROUND(a) ROUND(b) ROUND(c) ROUND(d) x += first; y += second + number;\n"
    "FN void store(GLOBAL u8 *part, i64 bytes, i64 at, u32 word) {\n"
    "    for (i64 i = 4 * at; i < 4 * at + 4 && i < bytes; i++, word >>= 8)\n"
    "        part[i] = (u8)word;\n"
    "}\n\n"
    "KERNEL zl_kernel(GLOBAL u8 *y0, GLOBAL const u32 *keys, i64 keys_at, i64 bytes, i64 pairs, i64 both, "
    "idx n) {\n"
    "    idx number = GROUP * THREADS + THREAD;\n"
    "    if (number >= n)\n"
    "        return;\n"
    "    i64 key = number / pairs, at = number % pairs;\n"
    "    u32 k0 = keys[keys_at + 2 * key], k1 = keys[keys_at + 2 * key + 1], k2 = k0 ^ k1 ^ 0x1bd11bdau;\n"
    "    u32 x = (u32)at + k0, y = (at < both ? (u32)(pairs + at) : 0u) + k1;\n"
    "    ROUNDS(13, 15, 26, 6, k1, k2, 1u)\n"
    "    ROUNDS(17, 29, 16, 24, k2, k0, 2u)\n"
    "    ROUNDS(13, 15, 26, 6, k0, k1, 3u)\n"
    "    ROUNDS(17, 29, 16, 24, k1, k2, 4u)\n"
    "    ROUNDS(13, 15, 26, 6, k2, k0, 5u)\n"
    "    STORE\n"
    "}\n";

static bool write_bits(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    text_add(out, "#define STORE %s\n",
             w->r->to ? "((GLOBAL u32 *)y0)[key * (bytes / 4) + at] = x; "
                        "if (at < both) ((GLOBAL u32 *)y0)[key * (bytes / 4) + pairs + at] = y;"
                      : "store(y0 + key * bytes, bytes, at, x); if (at < both) store(y0 + key * bytes, "
                        "bytes, pairs + at, y);");
    text_bytes(out, bits, (int)sizeof bits - 1);
    return true;
}

bool kernel_random_bits(const struct kernel_place *p, const struct call *c) {
    zl_array keys = c->in[0], y = call_first(c);
    int64_t count = keys->size / 2, bytes = y->size / count * (int64_t)array_item(y), words = (bytes + 3) / 4;
    int64_t pairs = words - words / 2, all = count * pairs;
    struct kernel_call k;
    kernel_begin_call(&k);
    struct recipe r = {bytes % 4 == 0, 0, all > INT32_MAX / 2, "bits"};
    void *kernel = kernel_find(p, &r, sizeof r, write_bits, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y), *from = kernel_reach(p, keys);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, keys->offset, true);
    kernel_add_int(&k, bytes, true);
    kernel_add_int(&k, pairs, true);
    kernel_add_int(&k, words / 2, true);
    kernel_add_int(&k, all, r.wide);
    return kernel && to && from && kernel_launch(p, kernel, (all + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}
