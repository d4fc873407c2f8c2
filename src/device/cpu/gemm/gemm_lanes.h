// gemm_lanes.h - lines along k times one vector, summed in the order of k, included once per type:
// LANED(name), LANED_TYPE and LANED_TRANSPOSE(v), which transposes as many vectors as a vector has lanes.
// Each lane sums the products of one line.

typedef LANED_TYPE LANED(vector) __attribute__((vector_size(16)));
typedef LANED(vector) LANED(memory) __attribute__((aligned(sizeof(LANED_TYPE)), may_alias));

#define LANES  ((int)(16 / sizeof(LANED_TYPE)))
#define GROUPS 2
#define LINES  (GROUPS * LANES)

// Multiplies LINES lines with x, into two vectors of sums.
GEMM_FUSED static inline __attribute__((always_inline)) void LANED(sum)(const LANED_TYPE *const *line,
                                                                        const LANED_TYPE *x,
                                                                        const struct gemm_order *o,
                                                                        LANED(vector) * total) {
    GEMM_CONTRACT
    for (int64_t from = 0; from < o->k; from += o->span) {
        const int64_t end = MIN_OF(from + o->span, o->k);
        LANED(vector) sum[GROUPS] = {{0}};
        int64_t i = from;
        for (; i + LANES <= end; i += LANES) {
            const LANED(vector) by = *(const LANED(memory) *)(x + i);
#pragma GCC unroll 2
            for (int g = 0; g < GROUPS; g++) {
                LANED(vector) part[LANES];
#pragma GCC unroll 4
                for (int l = 0; l < LANES; l++)
                    part[l] = *(const LANED(memory) *)(line[g * LANES + l] + i);
                LANED_TRANSPOSE(part);
#pragma GCC unroll 4
                for (int l = 0; l < LANES; l++)
                    sum[g] += part[l] * by[l];
            }
        }
        for (; i < end; i++)
#pragma GCC unroll 2
            for (int g = 0; g < GROUPS; g++) {
                LANED(vector) part = {0};
#pragma GCC unroll 4
                for (int l = 0; l < LANES; l++)
                    part[l] = line[g * LANES + l][i];
                sum[g] += part * x[i];
            }
#pragma GCC unroll 2
        for (int g = 0; g < GROUPS; g++)
            total[g] = from ? sum[g] + total[g] : sum[g];
    }
}

// Multiplies `count` lines; the last line takes the place of missing ones.
GEMM_FUSED static void LANED(along)(const void *from, int64_t line, const void *vector,
                                    const struct gemm_order *o, int64_t count, void *to) {
    LANED_TYPE *y = to;
    for (int64_t i = 0; i < count; i += LINES) {
        const LANED_TYPE *lines[LINES];
        LANED(vector) total[GROUPS] = {{0}};
        for (int l = 0; l < LINES; l++)
            lines[l] = (const LANED_TYPE *)from + MIN_OF(i + l, count - 1) * line;
        LANED(sum)(lines, vector, o, total);
        memcpy(y + i, total, (size_t)MIN_OF(LINES, count - i) * sizeof *y);
    }
}

#undef LANES
#undef GROUPS
#undef LINES
#undef LANED
#undef LANED_TYPE
#undef LANED_TRANSPOSE
