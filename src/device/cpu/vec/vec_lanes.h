// vec_lanes.h - the orders of lanes that shuffles need, for every number of lanes per register.

#ifndef VEC_LANES_H
#define VEC_LANES_H

// Lanes of 8, 16, 32, 64 bits in a register.
#if VEC_BYTES == 16
#define VEC_LANES_8  16
#define VEC_LANES_16 8
#define VEC_LANES_32 4
#define VEC_LANES_64 2
#elif VEC_BYTES == 32
#define VEC_LANES_8  32
#define VEC_LANES_16 16
#define VEC_LANES_32 8
#define VEC_LANES_64 4
#else
#define VEC_LANES_8  64
#define VEC_LANES_16 32
#define VEC_LANES_32 16
#define VEC_LANES_64 8
#endif

// VEC_ORDER(EVEN, 16): every second lane of two registers of 16-bit lanes, and so on.
#define VEC_ORDER(order, bits) VEC_JOIN(VEC_JOIN(VEC_, VEC_JOIN(order, _)), VEC_JOIN(VEC_LANES_, bits))

#define VEC_EVEN_2  0, 2
#define VEC_EVEN_4  VEC_EVEN_2, 4, 6
#define VEC_EVEN_8  VEC_EVEN_4, 8, 10, 12, 14
#define VEC_EVEN_16 VEC_EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define VEC_EVEN_32 VEC_EVEN_16, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62
#define VEC_EVEN_64                                                                                          \
    VEC_EVEN_32, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106, \
        108, 110, 112, 114, 116, 118, 120, 122, 124, 126

#define VEC_ODD_2  1, 3
#define VEC_ODD_4  VEC_ODD_2, 5, 7
#define VEC_ODD_8  VEC_ODD_4, 9, 11, 13, 15
#define VEC_ODD_16 VEC_ODD_8, 17, 19, 21, 23, 25, 27, 29, 31
#define VEC_ODD_32 VEC_ODD_16, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63

// The low or high half of one register; BOTH: the concatenation of two half registers.
#define VEC_LOW_2  0
#define VEC_LOW_4  VEC_LOW_2, 1
#define VEC_LOW_8  VEC_LOW_4, 2, 3
#define VEC_LOW_16 VEC_LOW_8, 4, 5, 6, 7
#define VEC_LOW_32 VEC_LOW_16, 8, 9, 10, 11, 12, 13, 14, 15
#define VEC_LOW_64 VEC_LOW_32, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31

#define VEC_HIGH_2  1
#define VEC_HIGH_4  2, 3
#define VEC_HIGH_8  4, 5, 6, 7
#define VEC_HIGH_16 8, 9, 10, 11, 12, 13, 14, 15
#define VEC_HIGH_32 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
#define VEC_HIGH_64                                                                                         \
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, \
        58, 59, 60, 61, 62, 63

#define VEC_BOTH_2  VEC_LOW_2, VEC_HIGH_2
#define VEC_BOTH_4  VEC_LOW_4, VEC_HIGH_4
#define VEC_BOTH_8  VEC_LOW_8, VEC_HIGH_8
#define VEC_BOTH_16 VEC_LOW_16, VEC_HIGH_16
#define VEC_BOTH_32 VEC_LOW_32, VEC_HIGH_32
#define VEC_BOTH_64 VEC_LOW_64, VEC_HIGH_64

// Alternating lanes of two registers: of their low halves, and of their high halves.
#define VEC_ZIPLOW_4  0, 4, 1, 5
#define VEC_ZIPLOW_8  0, 8, 1, 9, 2, 10, 3, 11
#define VEC_ZIPLOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23

#define VEC_ZIPHIGH_4  2, 6, 3, 7
#define VEC_ZIPHIGH_8  4, 12, 5, 13, 6, 14, 7, 15
#define VEC_ZIPHIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

// The upper part of 64-bit lanes, moved down by 32, 16 or 8 bytes; the upper lanes of the result do not
// matter.
#define VEC_DOWN8_2  1, 0
#define VEC_DOWN8_4  1, 0, 0, 0
#define VEC_DOWN8_8  1, 0, 0, 0, 0, 0, 0, 0
#define VEC_DOWN16_4 2, 3, 0, 0
#define VEC_DOWN16_8 2, 3, 0, 0, 0, 0, 0, 0
#define VEC_DOWN32_8 4, 5, 6, 7, 0, 0, 0, 0

#endif
