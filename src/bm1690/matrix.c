// matrix.c - products of matrices, with the reference model's sums.
//
// The depth is divided into blocks of 32 elements in 16 bits, and of 64 in 8 bits. Products are exact. Those
// of a block are truncated to multiples of 2^(e - 24), where e is the exponent of the largest of them, added
// exactly, rounded to f32, and added to the accumulator in f32. A truncated product is an integer of 25 bits
// in units of 2^(e - 24), so 64 of them add up in 32 bits. Hence there are two passes over a block, each over
// many columns at once: one for the largest product, one for the sum. In f32, even and odd depths have an
// accumulator each.

#include "bm1690/element.h"

#include <math.h>

run_function run_product, run_product_f32;

enum { COLUMNS = 64, ROWS = 8 }; // columns at a time; rows of a task

struct product {
    int rows, depth, columns; // of the product; the result is rows x columns
    int block;                // elements of the depth per block
    float *left, *right;      // rows x depth; depth x padded
    int padded;
    const struct view *out;
    bool adds, clips; // whether it is added to the result's old values; whether negative results become 0
    float *bias;      // NULL, or one for each column
};

// Blocks of products ----------------------------------------------------------------------------------------

// Returns whether, with a largest product of these bits, e and the integers fit f32 and int32. Other blocks
// are computed by exact_block.
static bool is_ordinary(uint32_t most) {
    return most >= 0x10000000 && most < 0x70000000;
}

// Returns a product in f32. It is exact unless it leaves the range of f32: then it is infinite, or zero.
static double product_of(float a, float b) {
    return (double)element_flush(a * b);
}

static float exact_block(const float *left, const float *right, int64_t step, int count) {
    double most = 0, sum = 0;
    for (int k = 0; k < count; k++) {
        double x = product_of(left[k], right[k * step]);
        sum += x;
        most = MAX_OF(most, fabs(x));
    }
    if (!isfinite(sum) || most == 0)
        return (float)sum;
    int e = ilogb(most);
    int64_t total = 0;
    for (int k = 0; k < count; k++)
        total += (int64_t)ldexp(product_of(left[k], right[k * step]), 24 - e);
    return (float)ldexp((double)total, e - 24);
}

// Adds the block's sum to each column's accumulator. `right` has the block's rows, `padded` apart.
static void add_block(float *restrict sum, const float *left, const float *right, int64_t padded, int count) {
    uint32_t most[COLUMNS] = {0};
    int32_t total[COLUMNS] = {0};
    float scale[COLUMNS], back[COLUMNS];
    for (int k = 0; k < count; k++) {
        const float *row = right + k * padded;
        float a = left[k];
        for (int j = 0; j < COLUMNS; j++) {
            uint32_t x = bits_of_float(a * row[j]) & 0x7fffffff;
            most[j] = x > most[j] ? x : most[j];
        }
    }
    bool ordinary = true;
    for (int j = 0; j < COLUMNS; j++) {
        uint32_t exponent = most[j] >> 23; // biased
        ordinary &= most[j] == 0 || is_ordinary(most[j]);
        scale[j] = float_of_bits((127 + 24 + 127 - exponent) << 23);
        back[j] = float_of_bits((exponent - 24) << 23);
    }
    if (!ordinary) {
        for (int j = 0; j < COLUMNS; j++)
            sum[j] = element_flush(sum[j] + element_flush(exact_block(left, right + j, padded, count)));
        return;
    }
    for (int j = 0; j < COLUMNS; j++) {
        scale[j] = most[j] ? scale[j] : 0;
        back[j] = most[j] ? back[j] : 0;
    }
    for (int k = 0; k < count; k++) {
        const float *row = right + k * padded;
        float a = left[k];
        for (int j = 0; j < COLUMNS; j++)
            total[j] += (int32_t)((a * row[j]) * scale[j]);
    }
    for (int j = 0; j < COLUMNS; j++)
        sum[j] += (float)total[j] * back[j];
}

static void product_tile(const struct product *p, int row, int column) {
    float sum[COLUMNS] = {0};
    int count = MIN_OF(COLUMNS, p->columns - column);
    uint8_t *out = view_row(p->out, 0, row, 0) + (size_t)column * (size_t)p->out->size;
    if (p->adds)
        element_load_row(sum, out, 1, count, p->out->dtype);
    for (int j = 0; p->bias && j < count; j++)
        sum[j] = element_flush(sum[j] + p->bias[column + j]); // before the products, whose sums are rounded
                                                              // with it
    for (int k = 0; k < p->depth; k += p->block)
        add_block(sum, p->left + (size_t)row * (size_t)p->depth + k,
                  p->right + (size_t)k * (size_t)p->padded + column, p->padded,
                  MIN_OF(p->block, p->depth - k));
    for (int j = 0; p->clips && j < count; j++)
        sum[j] = sum[j] < 0 ? 0 : sum[j]; // a NaN stays
    element_store_row(out, 1, count, p->out->dtype, sum);
    for (int j = 0; j < count; j++)
        if (isnan(sum[j]))
            element_result(out + (size_t)j * (size_t)p->out->size, p->out->dtype, sum[j]);
}

static void product_rows(void *context, int part) {
    const struct product *p = context;
    for (int column = 0; column < p->columns; column += COLUMNS)
        for (int row = part * ROWS; row < MIN_OF(p->rows, (part + 1) * ROWS); row++)
            product_tile(p, row, column);
}

// Operands as floats ----------------------------------------------------------------------------------------

// Loads a view {1, rows, 1, columns} as a matrix of f32, or its transpose; rows begin `step` floats apart.
static void load_matrix(float *to, int64_t step, const struct view *v, bool is_transposed) {
    for (int c = 0; c < v->dim.c; c++) {
        const uint8_t *row = view_row(v, 0, c, 0);
        for (int w = 0; is_transposed && w < v->dim.w; w++)
            to[w * step + c] = element_operand(row + (size_t)w * (size_t)v->size, v->dtype);
        if (is_transposed)
            continue;
        element_load_row(to + c * step, row, 1, v->dim.w, v->dtype);
        for (int w = 0; v->dtype == BM1690_BFP16 && w < v->dim.w; w++)
            to[c * step + w] = element_flush(to[c * step + w]);
    }
}

static bool check_output(struct command *command, const struct view *out, const struct view *in) {
    return out->dtype == BM1690_FP32 || out->dtype == in->dtype || in->size == 1 ||
           command_refuse(command, "output_dtype", "is %s; of products of %s it is to be FP32 or %s",
                          bm1690_dtype_name(out->dtype), bm1690_dtype_name(in->dtype),
                          bm1690_dtype_name(in->dtype));
}

// Loads the bias. In local memory it has the shape {1, 64, 1, columns}: one element per column, the same in
// every lane.
static bool load_bias(struct command *command, struct product *p) {
    const union bm1690_value *bias = command_value(command, "bias");
    enum bm1690_dtype dtype = (enum bm1690_dtype)command_value(command, "bias_dtype")->i;
    struct view v;
    if (!command_has(command, "bias") || (command_value(command, "bias_is_const")->i && bias->word == 0))
        return true;
    if (!command_value(command, "bias_is_const")->i &&
        !operand_local(command, &v, "bias", bias->word, BM1690_TENSOR, (struct dims){1, 1, 1, p->columns},
                       dtype, BM1690_READ))
        return false;
    p->bias = memory_alloc(sizeof *p->bias * (size_t)p->columns);
    for (int j = 0; p->bias && j < p->columns; j++)
        p->bias[j] = command_value(command, "bias_is_const")->i
                         ? element_load((const uint8_t *)&bias->word, dtype)
                         : element_load(view_row(&v, 0, 0, 0) + (size_t)j * (size_t)v.size, dtype);
    return p->bias;
}

static void product_free(struct product *p) {
    memory_free(p->left);
    memory_free(p->right);
    memory_free(p->bias);
}

// Each lane has a row; 4 columns and `inner` elements of the depth take one cycle.
static double product_cycles(const struct product *p, int inner) {
    int64_t groups = (p->rows + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT;
    return (double)(groups * ((p->depth + inner - 1) / inner) * ((p->columns + 3) / 4));
}

bool run_product(struct command *command) {
    const struct view *out = command_operand(command, 0), *left = command_operand(command, 1),
                      *right = command_operand(command, 2);
    bool is_swapped =
        command->operation == MM_TT; // if both operands are transposed, the rows of the result are those of
                                     // the right operand
    struct product p = {.out = out,
                        .block = left->size == 1 ? 64 : 32,
                        .rows = out->dim.c,
                        .columns = out->dim.w,
                        .depth = command->operation == MM_NN ? right->dim.c : right->dim.w};
    if (!check_output(command, out, left))
        return false;
    p.adds = command_value(command, "result_add")->i;
    if (p.adds && out->dtype != BM1690_FP32)
        return command_refuse(command, "result_add",
                              "is true and output_dtype %s; products are added to FP32 alone",
                              bm1690_dtype_name(out->dtype));
    if (command_value(command, "do_rescale")->i)
        return command_refuse(command, "do_rescale",
                              "is true; the emulator has no scales of products: multiply apart");
    p.clips = command_value(command, "do_relu")->i;
    command->cycles = product_cycles(&p, p.block);
    if (p.adds && !operand_local(command, &(struct view){0}, "output_addr", (uint32_t)command->value[0].u,
                                 BM1690_TENSOR, out->dim, out->dtype, BM1690_READ))
        return false;
    if (!load_bias(command, &p) || command->core->counts_only) {
        product_free(&p);
        return !command->core->failed;
    }
    p.padded = (p.columns + COLUMNS - 1) / COLUMNS * COLUMNS;
    p.left = memory_alloc(sizeof *p.left * (size_t)p.rows * (size_t)p.depth);
    p.right = memory_zero(sizeof *p.right * (size_t)p.depth * (size_t)p.padded);
    if (p.left && p.right) {
        load_matrix(p.left, p.depth, is_swapped ? right : left, false);
        load_matrix(p.right, p.padded, is_swapped ? left : right, command->operation == MM_NT);
        int parts = (p.rows + ROWS - 1) / ROWS;
        if ((double)p.rows * p.columns * p.depth > 1e5)
            pool_run(parts, product_rows, &p);
        else
            for (int i = 0; i < parts; i++)
                product_rows(&p, i);
    }
    bool done = p.left && p.right;
    product_free(&p);
    return done;
}

// f32 -------------------------------------------------------------------------------------------------------

// Returns the rows x columns matrix of a view {rows, channels, 1, columns per channel} as contiguous f32 with
// subnormal numbers flushed; the caller frees it. NULL if memory is out.
static float *load_split(const struct view *v, int columns) {
    float *to = memory_alloc(sizeof *to * (size_t)v->dim.n * (size_t)columns);
    for (int row = 0; to && row < v->dim.n; row++)
        for (int c = 0; c < v->dim.c; c++)
            element_load_row(to + (size_t)row * (size_t)columns + (size_t)c * (size_t)v->dim.w,
                             view_row(v, row, c, 0), 1, MIN_OF(v->dim.w, columns - c * v->dim.w), v->dtype);
    for (int64_t i = 0; to && i < (int64_t)v->dim.n * columns; i++)
        to[i] = element_flush(to[i]);
    return to;
}

struct product_f32 {
    int rows, depth, columns;
    bool adds;
    const struct view *out;
    float *left, *right, *sums; // sums: for each row, one row of even and one of odd depths
};

static void add_product(float *restrict sum, float a, const float *restrict b, int count) {
    for (int j = 0; j < count; j++)
        sum[j] = element_flush(sum[j] + element_flush(a * b[j]));
}

static void product_row_f32(void *context, int row) {
    const struct product_f32 *p = context;
    float *even = p->sums + (size_t)row * 2 * (size_t)p->columns, *odd = even + p->columns;
    const struct view *out = p->out;
    for (int c = 0; p->adds && c < out->dim.c; c++)
        element_load_row(odd + (size_t)c * (size_t)out->dim.w, view_row(out, row, c, 0), 1,
                         MIN_OF(out->dim.w, p->columns - c * out->dim.w), out->dtype);
    for (int k = 0; k < p->depth; k++)
        add_product(k & 1 ? odd : even, p->left[(size_t)row * (size_t)p->depth + (size_t)k],
                    p->right + (size_t)k * (size_t)p->columns, p->columns);
    for (int j = 0; j < p->columns; j++)
        element_result((uint8_t *)&even[j], BM1690_FP32, even[j] + odd[j]);
    for (int c = 0; c < out->dim.c; c++)
        element_store_row(view_row(out, row, c, 0), 1, MIN_OF(out->dim.w, p->columns - c * out->dim.w),
                          out->dtype, even + (size_t)c * (size_t)out->dim.w);
}

static bool compute_f32(struct product_f32 *p, const struct view *left, const struct view *right) {
    p->left = load_split(left, p->depth);
    p->right = load_split(right, p->columns);
    p->sums = memory_zero(sizeof *p->sums * 2 * (size_t)p->rows * (size_t)p->columns);
    bool done = p->left && p->right && p->sums;
    if (done)
        pool_run(p->rows, product_row_f32, p);
    memory_free(p->left);
    memory_free(p->right);
    memory_free(p->sums);
    return done;
}

// Runs a product in f32. Each lane has columns: 64 bytes of a row take a cycle per depth.
bool run_product_f32(struct command *command) {
    const struct view *out = command_operand(command, 0);
    struct product_f32 p = {.rows = (int)command_value(command, "left_rows")->i,
                            .depth = (int)command_value(command, "left_cols")->i,
                            .columns = (int)command_value(command, "right_cols")->i,
                            .adds = command_value(command, "result_add")->i,
                            .out = out};
    int64_t groups = (out->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT,
            vectors = (out->dim.w * out->size + BM1690_VECTOR_BYTES - 1) / BM1690_VECTOR_BYTES;
    command->cycles = (double)p.rows * p.depth * (double)(groups * vectors);
    if (command_value(command, "has_bias")->i)
        return command_refuse(command, "has_bias",
                              "is true; the emulator has no bias of f32 products: add it apart");
    return command->core->counts_only ||
           compute_f32(&p, command_operand(command, 1), command_operand(command, 2));
}
