// quantized_dot.h - products of rows of whole numbers and columns of codes by dot products of four bytes,
// included once per instruction set.
//
// DOT_NAME(part) gives the names of functions, DOT_COLUMNS is the number of columns in a register, DOT_TARGET
// the attribute of functions that use the instructions. DOT(sum, w, x, wide) adds products of bytes: those of
// w are unsigned or, if DOT_SIGNED, signed; wide: they may have eight bits.

typedef int32_t DOT_NAME(ints) __attribute__((vector_size(4 * DOT_COLUMNS)));
typedef float DOT_NAME(floats) __attribute__((vector_size(4 * DOT_COLUMNS)));
typedef DOT_NAME(ints) DOT_NAME(ints_memory) __attribute__((aligned(1), may_alias));
typedef DOT_NAME(floats) DOT_NAME(floats_memory) __attribute__((aligned(4), may_alias));

DOT_TARGET static inline __attribute__((always_inline)) DOT_NAME(floats)
    DOT_NAME(floats_at)(const float *from) {
    return *(const DOT_NAME(floats_memory) *)from;
}

DOT_TARGET static inline __attribute__((always_inline)) DOT_NAME(floats) DOT_NAME(real)(DOT_NAME(ints) x) {
    return __builtin_convertvector(x, DOT_NAME(floats));
}

// Sums the products of one group for each line.
DOT_TARGET static inline __attribute__((always_inline)) void
DOT_NAME(group)(int lines, bool wide, const int8_t *x, const int8_t *w, int group, DOT_NAME(ints) * all) {
#pragma GCC unroll 8
    for (int i = 0; i < lines; i++)
        all[i] = (DOT_NAME(ints)){0};
    for (int at = 0; at < group; at += 4, x += 4 * lines, w += 4 * DOT_COLUMNS) {
        DOT_NAME(ints) codes = *(const DOT_NAME(ints_memory) *)w;
#pragma GCC unroll 8
        for (int i = 0; i < lines; i++) {
            int32_t four;
            memcpy(&four, x + 4 * i, sizeof four);
            all[i] = DOT(all[i], codes, (DOT_NAME(ints)){0} + four, wide);
        }
    }
}

DOT_TARGET static inline __attribute__((always_inline)) void DOT_NAME(set)(int parts, int rows, bool wide,
                                                                           const struct int_set *x,
                                                                           const struct int_columns *w,
                                                                           float *out, int64_t out_row) {
    const int lines = parts * rows;
    DOT_NAME(floats) sum[INT_ROWS_MOST], high[INT_ROWS_MOST], rest[INT_ROWS_MOST];
    const float shift = (float)dot_shift(w, DOT_SIGNED);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        sum[r] = high[r] = rest[r] = (DOT_NAME(floats)){0};
    for (int64_t g = 0; g < x->groups; g++) {
        DOT_NAME(ints) all[INT_ROWS_MOST * 2];
        DOT_NAME(floats) scale = DOT_NAME(floats_at)(w->scale + g * DOT_COLUMNS);
        DOT_NAME(group)
        (lines, wide, x->code + g * w->group * lines, w->zipped + g * w->group * DOT_COLUMNS, w->group, all);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            DOT_NAME(ints) last = parts == 2 ? all[2 * r + 1] : all[2 * rows + r];
            DOT_NAME(ints) before = parts == 2 ? all[2 * r] : all[2 * r + 1];
            sum[r] += DOT_NAME(real)(before * 256 + last) * scale;
            if (parts == 3)
                high[r] += DOT_NAME(real)(all[2 * r]) * scale;
            rest[r] += scale * (shift * x->sum[r * x->groups + g]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        float *to = out + r * out_row;
        sum[r] = (parts == 3 ? high[r] * 65536 + sum[r] : sum[r]) * x->factor[r] + rest[r];
        *(DOT_NAME(floats_memory) *)to = sum[r];
        dot_add_biases(w, x->sum + r * x->groups, x->groups, DOT_COLUMNS, to);
    }
}

#define DOT_RUN(parts, rows)                                       \
    case 8 * (parts) + (rows):                                     \
        if (w->bits == 8)                                          \
            DOT_NAME(set)(parts, rows, true, x, w, out, out_row);  \
        else                                                       \
            DOT_NAME(set)(parts, rows, false, x, w, out, out_row); \
        return;

DOT_TARGET static void DOT_NAME(run)(const struct int_set *x, const struct int_columns *w, float *out,
                                     int64_t out_row) {
    switch (8 * x->parts + x->rows) {
        DOT_RUN(2, 1)
        DOT_RUN(2, 2)
        DOT_RUN(2, 3)
        DOT_RUN(2, 4)
        DOT_RUN(3, 1)
        DOT_RUN(3, 2)
    }
}

static void DOT_NAME(zip)(const struct unpacking *u, const uint8_t *const *row, int bits, int64_t k, int less,
                          int8_t *out) {
    (void)less;
    dot_zip(u, row, bits, k, DOT_COLUMNS, DOT_SIGNED, out);
}

static void DOT_NAME(turn)(zl_dtype dtype, const char *const *column, int64_t groups, float *out) {
    dot_turn(dtype, column, groups, DOT_COLUMNS, out);
}

#undef DOT_RUN
#undef DOT_NAME
#undef DOT_COLUMNS
#undef DOT_TARGET
#undef DOT_SIGNED
#undef DOT
