// quantized_lines.cu - a few lines of f16 or bf16 times a matrix of four bits, by matrix instructions.
//
// Eight warps have 16 rows of the matrix and share its columns, in pieces of 128. A thread reads 32 codes of two rows: of each word, codes
// i and i + 4 are two 16-bit numbers after a shift and a mask, and x is brought into the same order. The columns of the instruction
// are groups of codes and lines of x: in each of its eight columns x is zero outside of its group, so that sums of groups stay apart.
// Codes are multiplied as the low bits of a large number; ones instead of codes give the sums of x that biases are multiplied with, and
// that number is subtracted. Of one line (SINGLE) the columns are groups alone: a warp reads four pieces at once and has their groups in
// as few instructions.
//
// Defined before this text: ITEM, which is f16, or bf16 if IS_BF16 is 1; SCALE, which is f16, bf16 or f32, or u8 for mxfp4, and
// SCALE_OF(x), which is scale_of_ and that name; AFFINE, GROUP_SIZE, GATHERED and SINGLE.

#define FN static __device__ __forceinline__
#define UNROLL _Pragma("unroll")

typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef float f32;
typedef unsigned char u8;
typedef unsigned short f16, bf16;

enum { CLASSES = 128 / GROUP_SIZE, LINES = SINGLE ? 1 : 8 / CLASSES };

// Scales are numbers; those of mxfp4 are exponents.
FN f32 scale_of_f32(f32 x) { return x; }
FN f32 scale_of_bf16(bf16 x) { return __uint_as_float((u32)x << 16); }
FN f32 scale_of_u8(u8 x) { return __uint_as_float(x ? (u32)x << 23 : 1u << 22); }
FN f32 scale_of_f16(f16 x) {
    f32 y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

// Two 16-bit numbers of codes: low bits of a large number, LESS; or, of small floats, their own bits, of which the exponent is too
// small. AT: the bit at which a code counts as one.
#if IS_BF16
#define TYPE "bf16"
#define ONES 0x3f803f80u
#define LARGE 0x43004300u
#define LESS 128.0f
#define AT 0
#define PLACE 6
#define LIFT 0x7e807e80u
#else
#define TYPE "f16"
#define ONES 0x3c003c00u
#define LARGE 0x54005400u
#define LESS 64.0f
#define AT 4
#define PLACE 9
#define LIFT 0x74007400u
#endif

// Rounds a pair, of which one is zero: a single number would take eight times as long.
FN ITEM item_of(f32 x) {
    u32 pair;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    return (ITEM)pair;
}

FN u32 two_of(u32 word, i32 which) {
    i32 by = 4 * which - AT;
    u32 y;
    if (AFFINE) // one instruction masks and sets bits, if it is told to
        asm("lop3.b32 %0, %1, %2, %3, 0xea;"
            : "=r"(y) : "r"(by < 0 ? word << -by : word >> by), "r"(0x000f000fu << AT), "r"(LARGE));
    else
        asm("fma.rn." TYPE "x2 %0, %1, %2, %3;"
            : "=r"(y)
            : "r"((word >> 4 * which & 0x00080008u) << 12 | (word >> 4 * which & 0x00070007u) << PLACE), "r"(LIFT),
              "r"(0x80008000u));
    return y;
}

FN void multiply(f32 *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

FN u32 word_of(uint4 x, i32 i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

// x in the order of codes: of eight numbers, i and i + 4.
FN void in_order(u32 *y, uint4 x) {
    y[0] = __byte_perm(x.x, x.z, 0x5410);
    y[1] = __byte_perm(x.x, x.z, 0x7632);
    y[2] = __byte_perm(x.y, x.w, 0x5410);
    y[3] = __byte_perm(x.y, x.w, 0x7632);
}

FN f32 add_group(f32 sum, SCALE scale, SCALE bias, f32 codes, f32 ones) {
    sum = fmaf(SCALE_OF(scale), codes, sum);
    return AFFINE ? fmaf(fmaf(-LESS, SCALE_OF(scale), SCALE_OF(bias)), ones, sum) : sum;
}

FN i64 nearest(u32 i, i64 count) { return (i64)i < count ? (i64)i : count - 1; }
FN i64 least(i64 a, i64 b) { return a < b ? a : b; }

struct sizes { // struct axes of cuda_quantized_lines.c
    i64 products, m, k, rows, row_words, row_groups;
    i64 lists, matrices;
    i64 x, words, scales, biases, first, second;
    i64 blocks, chunks;
};

#if SINGLE
struct __align__(2 * sizeof(SCALE)) pair { SCALE e[2]; };

// Nobody reads codes again.
FN uint4 read_words(const uint4 *at) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at));
    return x;
}
#else
// What a thread reads of a piece: words of its two rows, and x of its column.
struct piece { uint4 low, high, x[4]; SCALE scale[4], bias[4]; };
#endif

extern "C" __global__ void __launch_bounds__(256, SINGLE && GROUP_SIZE > 32 ? 3 : 2)
zl_kernel(ITEM *y, const ITEM *x, const u32 *words, const SCALE *scales, const SCALE *biases, const u32 *first,
          const u32 *second, const __grid_constant__ struct sizes s) {
    i64 group = blockIdx.x;
    i64 block = group % s.blocks, line = group / s.blocks % s.chunks * LINES, number = group / s.blocks / s.chunks;
    i64 from_list = GATHERED ? nearest(first[s.first + number], s.lists) : 0;
    i64 which = GATHERED ? nearest(second[s.second + number], s.matrices) : 0;
    x += s.x + from_list * s.m * s.k;
    words += s.words + which * s.rows * s.row_words;
    scales += s.scales + which * s.rows * s.row_groups;
    biases += s.biases + which * s.rows * s.row_groups;
    i32 thread = (i32)threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4, all = (i32)(s.k / 128);
    i64 row = block * 16, low = least(row + g, s.rows - 1), high = least(row + g + 8, s.rows - 1);
    const uint4 none = make_uint4(0, 0, 0, 0);
    const uint4 *low_from = (const uint4 *)(words + low * s.row_words) + t;
    const uint4 *high_from = (const uint4 *)(words + high * s.row_words) + t;
#if SINGLE
    const i32 SPAN = CLASSES > 2 ? 8 / CLASSES : 4; // pieces whose groups are columns of one instruction
    __shared__ f32 room[8][16];
    const uint4 *x_from = (const uint4 *)x + 4 * t;
    i32 groups[2] = {(i32)(low * s.row_groups), (i32)(high * s.row_groups)}, rows = (i32)least(16, s.rows - row);
    y += number * s.rows + row;
    f32 sum[2] = {0, 0};
    for (i32 from = 4 * warp; from < all; from += 32) {
        uint4 a[4], b[4];
        struct pair scale[4 / SPAN][2], bias[4 / SPAN][2];
        UNROLL for (i32 i = 0; i < 4; i++) { // all codes are asked for before one is waited for
            i32 at = from + i < all ? from + i : all - 1;
            a[i] = read_words(low_from + at * 4);
            b[i] = read_words(high_from + at * 4);
        }
        UNROLL for (i32 u = 0; u < 4 / SPAN; u++) {
            i32 at = (from + u * SPAN) * CLASSES + 2 * t, last = all * CLASSES - 2;
            UNROLL for (i32 i = 0; i < 2; i++) {
                i32 place = groups[i] + (at < last ? at : last);
                scale[u][i] = *(const struct pair *)(scales + place);
                bias[u][i] = AFFINE ? *(const struct pair *)(biases + place) : scale[u][i];
            }
        }
        UNROLL for (i32 u = 0; u < 4 / SPAN; u++) {
            i32 at = from + u * SPAN + g / CLASSES;
            bool is_mine = g % CLASSES == t * CLASSES / 4 && g / CLASSES < SPAN && at < all;
            u32 v[4][4];
            f32 codes[2][4] = {}, ones[4] = {};
            UNROLL for (i32 i = 0; i < 4; i++)
                in_order(v[i], is_mine ? x_from[at * 16 + i] : none);
            UNROLL for (i32 piece = 0; piece < SPAN; piece++) {
                bool is_here = g / CLASSES == piece;
                f32 *to = codes[piece % 2]; // two sums, so that instructions wait less for each other
                UNROLL for (i32 i = 0; i < 4; i++) {
                    u32 p = word_of(a[u * SPAN + piece], i), q = word_of(b[u * SPAN + piece], i), z[4];
                    UNROLL for (i32 j = 0; j < 4; j++)
                        z[j] = is_here ? v[i][j] : 0;
                    multiply(to, two_of(p, 0), two_of(q, 0), two_of(p, 1), two_of(q, 1), z[0], z[1]);
                    multiply(to, two_of(p, 2), two_of(q, 2), two_of(p, 3), two_of(q, 3), z[2], z[3]);
                }
            }
            UNROLL for (i32 i = 0; AFFINE && i < 4; i++) {
                multiply(ones, ONES, ONES, ONES, ONES, v[i][0], v[i][1]);
                multiply(ones, ONES, ONES, ONES, ONES, v[i][2], v[i][3]);
            }
            UNROLL for (i32 i = 0; i < 4; i++)
                sum[i / 2] = add_group(sum[i / 2], scale[u][i / 2].e[i % 2], bias[u][i / 2].e[i % 2],
                                       codes[0][i] + codes[1][i], ones[i]);
        }
    }
    UNROLL for (i32 i = 0; i < 2; i++) {
        sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
        sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
        if (t == 0)
            room[warp][g + 8 * i] = sum[i];
    }
    __syncthreads();
    if (thread >= rows)
        return;
    f32 total = 0;
    UNROLL for (i32 w = 0; w < 8; w++)
        total += room[w][thread];
    y[thread] = item_of(total);
#else
    __shared__ f32 room[8][16][9];
    i64 reads = line + g / CLASSES;
    bool is_mine = g % CLASSES == t * CLASSES / 4 && reads < s.m;
    const uint4 *x_from = (const uint4 *)(x + reads * s.k) + 4 * t;
    const SCALE *scales_from[4], *biases_from[4];
    bool counts[2] = {line + 2 * t / CLASSES < s.m, line + (2 * t + 1) / CLASSES < s.m};
    UNROLL for (i32 i = 0; i < 4; i++) {
        i64 place = (i < 2 ? low : high) * s.row_groups + (2 * t + i % 2) % CLASSES;
        scales_from[i] = scales + place;
        biases_from[i] = biases + place;
    }
    f32 sum[4] = {0, 0, 0, 0};
    for (i32 from = warp; from < all; from += 16) {
        struct piece p[2];
        UNROLL for (i32 u = 0; u < 2; u++) {
            i32 at = from + 8 * u;
            bool inside = at < all;
            p[u].low = inside ? low_from[at * 4] : none;
            p[u].high = inside ? high_from[at * 4] : none;
            UNROLL for (i32 i = 0; i < 4; i++) {
                p[u].x[i] = is_mine && inside ? x_from[at * 16 + i] : none;
                p[u].scale[i] = counts[i % 2] && inside ? scales_from[i][at * CLASSES] : 0;
                p[u].bias[i] = AFFINE && counts[i % 2] && inside ? biases_from[i][at * CLASSES] : 0;
            }
        }
        UNROLL for (i32 u = 0; u < 2; u++) {
            f32 codes[4] = {0, 0, 0, 0}, ones[4] = {0, 0, 0, 0};
            UNROLL for (i32 i = 0; i < 4; i++) {
                u32 a = word_of(p[u].low, i), b = word_of(p[u].high, i), v[4];
                in_order(v, p[u].x[i]);
                multiply(codes, two_of(a, 0), two_of(b, 0), two_of(a, 1), two_of(b, 1), v[0], v[1]);
                multiply(codes, two_of(a, 2), two_of(b, 2), two_of(a, 3), two_of(b, 3), v[2], v[3]);
                if (AFFINE) {
                    multiply(ones, ONES, ONES, ONES, ONES, v[0], v[1]);
                    multiply(ones, ONES, ONES, ONES, ONES, v[2], v[3]);
                }
            }
            UNROLL for (i32 i = 0; i < 4; i++)
                sum[i] = add_group(sum[i], p[u].scale[i], p[u].bias[i], codes[i], ones[i]);
        }
    }
    UNROLL for (i32 i = 0; i < 4; i++)
        room[warp][g + i / 2 * 8][2 * t + i % 2] = sum[i];
    __syncthreads();
    i32 mine = thread % 16, column = thread / 16;
    if (column >= 8 / CLASSES || row + mine >= s.rows || line + column >= s.m)
        return;
    f32 total = 0;
    UNROLL for (i32 w = 0; w < 8; w++)
        UNROLL for (i32 i = 0; i < CLASSES; i++)
            total += room[w][mine][column * CLASSES + i];
    y[number * s.m * s.rows + (line + column) * s.rows + row + mine] = item_of(total);
#endif
}
