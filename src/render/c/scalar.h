// scalar.h - shared by the dialects that compute one element at a time: the spelling of values, and the
// record of such a target. Used by the files of render/ only.

#ifndef SCALAR_H
#define SCALAR_H

#include "render/c/style.h"

// Spellings for groups of threads, which divide 32-bit numbers: base ops only; without an exp2 of the
// target's own; with it; and with CUDA's arithmetic of 16-bit floats.
extern const struct spelling scalar_plain_words[TILE_OP_COUNT], scalar_group_words[TILE_OP_COUNT],
    scalar_exp2_words[TILE_OP_COUNT], scalar_cuda_words[TILE_OP_COUNT];

// Appends the type of the variable that holds e. These are members of struct dialect; j is always 0.
void render_scalar_type(struct style *s, expr e);
// Appends the value of e in terms of its operands.
void render_scalar_value(struct style *s, expr e, int j);
// Appends the name of e; of a constant, its number.
void render_scalar_operand(struct style *s, expr e, int j);
// Appends the mask itself, which has one lane.
void render_scalar_any(struct style *s, expr mask);
// Returns whether e has no variable: constants and complex numbers.
bool render_scalar_is_inline(const struct plan *plan, expr e);

#define SCALAR_DIALECT                                                                          \
    .type = render_scalar_type, .value = render_scalar_value, .operand = render_scalar_operand, \
    .any = render_scalar_any, .is_inline = render_scalar_is_inline

// The record of a target: its name, its spellings, then other members, each followed by a comma.
#define SCALAR_WIDE   PASS_INTEGER | PASS_FLOAT
#define SCALAR_HALVES (PASS_F16 | PASS_BF16)
#define SCALAR_TARGET(target_name, words, ...)                 \
    {                                                          \
        __VA_ARGS__.name = target_name, .op = words, .cast = { \
            [ZL_UINT8] = PASS_INTEGER,                         \
            [ZL_UINT16] = PASS_INTEGER,                        \
            [ZL_UINT32] = SCALAR_WIDE,                         \
            [ZL_UINT64] = PASS_INTEGER | PASS_BIT(ZL_FLOAT64), \
            [ZL_INT8] = PASS_INTEGER,                          \
            [ZL_INT16] = PASS_INTEGER,                         \
            [ZL_INT32] = SCALAR_WIDE,                          \
            [ZL_INT64] = PASS_INTEGER | PASS_BIT(ZL_FLOAT64),  \
            [ZL_FLOAT16] = PASS_BIT(ZL_FLOAT32),               \
            [ZL_BFLOAT16] = PASS_BIT(ZL_FLOAT32),              \
            [ZL_FLOAT32] = SCALAR_WIDE | SCALAR_HALVES,        \
            [ZL_FLOAT64] = SCALAR_WIDE                         \
        }                                                      \
    }

#endif
