// vec_reduce.h - the registers of a reduction. On every level, they hold 128 bytes of accumulators (for
// complex numbers, 64 bytes of each part), so that the order of combination, and with it the bits, do not
// depend on the size of registers.

#ifndef VEC_REDUCE_H
#define VEC_REDUCE_H

// VEC_EACH_n(M): M(r) for every register of n bytes of accumulators. VEC_FOLD_n(M): M(r, s) for every pair of
// registers that is combined, until all are in register 0.
#if VEC_BYTES == 16
#define VEC_EACH_64(M)  M(0) M(1) M(2) M(3)
#define VEC_FOLD_64(M)  M(0, 2) M(1, 3) M(0, 1)
#define VEC_EACH_128(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define VEC_FOLD_128(M) M(0, 4) M(1, 5) M(2, 6) M(3, 7) VEC_FOLD_64(M)
#define VEC_GROUPS(M)   M(0) M(4)
#elif VEC_BYTES == 32
#define VEC_EACH_64(M)  M(0) M(1)
#define VEC_FOLD_64(M)  M(0, 1)
#define VEC_EACH_128(M) M(0) M(1) M(2) M(3)
#define VEC_FOLD_128(M) M(0, 2) M(1, 3) M(0, 1)
#define VEC_GROUPS(M)   M(0)
#else
#define VEC_EACH_64(M)  M(0)
#define VEC_FOLD_64(M)
#define VEC_EACH_128(M) M(0) M(1)
#define VEC_FOLD_128(M) M(0, 1)
#define VEC_GROUPS(M)   M(0)
#endif
// VEC_GROUPS(M): M(first) for groups of at most four registers, which together have 128 bytes.
// VEC_EACH_OF_GROUP(M): M(r) for each register of a group.
#if VEC_BYTES == 64
#define VEC_EACH_OF_GROUP(M) M(0) M(1)
#else
#define VEC_EACH_OF_GROUP(M) M(0) M(1) M(2) M(3)
#endif

// VEC_DOWN_n(M): M(bytes) for every halving within a register, down to lanes of n bytes.
#if VEC_BYTES == 16
#define VEC_DOWN_8(M) M(8)
#elif VEC_BYTES == 32
#define VEC_DOWN_8(M) M(16) M(8)
#else
#define VEC_DOWN_8(M) M(32) M(16) M(8)
#endif
#define VEC_DOWN_4(M) VEC_DOWN_8(M) M(4)
#define VEC_DOWN_2(M) VEC_DOWN_4(M) M(2)
#define VEC_DOWN_1(M) VEC_DOWN_2(M) M(1)

struct vec_c64 {
    vec_f32 re, im;
};
VEC_FN vec_f32 vec_load_re(const char *p) { return vec_re(vec_load_f32(p), vec_load_f32(p + VEC_BYTES)); }
VEC_FN vec_f32 vec_load_im(const char *p) { return vec_im(vec_load_f32(p), vec_load_f32(p + VEC_BYTES)); }

#endif
