// lanes.h - vectors of 16 bytes, by what they hold, and the same where they lie in memory at any address.

#ifndef CPU_LANES_H
#define CPU_LANES_H

#include <stdint.h>

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef int8_t chars16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef int32_t ints4 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));
typedef double doubles2 __attribute__((vector_size(16)));

typedef bytes16 bytes_memory __attribute__((aligned(1), may_alias));
typedef halves8 halves_memory __attribute__((aligned(1), may_alias));
typedef floats4 floats_memory __attribute__((aligned(1), may_alias));

#endif
