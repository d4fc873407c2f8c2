// bytes.c - products and pooling of 8-bit integers.

#include "bm1690/element.h"

run_function run_product_int8, run_pool_int8;

// Products --------------------------------------------------------------------------------------------------

static const uint8_t *matrix_element(const struct view *v, int row, int column) {
    return view_row(v, 0, row, 0) + column;
}

struct product {
    const struct view *out, *left,
        *right; // the result is left times right, which is transposed if right_is_transposed
    bool right_is_transposed, adds;
    bool is_unsigned; // without signs and zero points: sums beyond the largest signed number become that
                      // number
    int depth;
    int64_t left_zero, right_zero; // zero points, which are subtracted
};

static void product_row(void *context, int row) {
    const struct product *p = context;
    int32_t *out = (int32_t *)(void *)view_row(p->out, 0, row, 0);
    for (int j = 0; j < p->out->dim.w; j++) {
        int64_t sum = p->adds ? out[j] : 0;
        for (int k = 0; k < p->depth; k++)
            sum += (element_load_int(matrix_element(p->left, row, k), p->left->dtype) - p->left_zero) *
                   (element_load_int(p->right_is_transposed ? matrix_element(p->right, j, k)
                                                            : matrix_element(p->right, k, j),
                                     p->right->dtype) -
                    p->right_zero);
        uint32_t word = (uint32_t)(uint64_t)sum;
        out[j] = (int32_t)(p->is_unsigned ? MIN_OF(word, (uint32_t)INT32_MAX) : word);
    }
}

// Each lane has a row; 4 columns and 64 elements of the depth take one cycle.
static double product_cycles(const struct product *p) {
    int64_t groups = (p->out->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT;
    return (double)(groups * ((p->depth + 63) / 64) * ((p->out->dim.w + 3) / 4));
}

// Runs a product of 8-bit integers. If both operands are transposed, the result is too: its rows are those of
// the right operand.
bool run_product_int8(struct command *command) {
    const struct view *out = command_operand(command, 0), *left = command_operand(command, 1),
                      *right = command_operand(command, 2);
    bool swaps = command->operation == MM_TT;
    struct product p = {.out = out,
                        .left = swaps ? right : left,
                        .right = swaps ? left : right,
                        .right_is_transposed = command->operation == MM_NT,
                        .adds = command_value(command, "result_add")->i != 0,
                        .depth = command->operation == MM_NN ? right->dim.c : right->dim.w};
    uint32_t zero = command_value(command, "zp_val")->word;
    *(swaps ? &p.left_zero : &p.right_zero) = element_load_int((const uint8_t *)&zero, right->dtype);
    p.is_unsigned = !element_is_signed(left->dtype) && !p.left_zero && !p.right_zero;
    command->cycles = product_cycles(&p);
    if (left->dtype != right->dtype)
        return command_refuse(command, "right_zp_dtype", "is %s and left_dtype %s; they are to be the same",
                              bm1690_dtype_name(right->dtype), bm1690_dtype_name(left->dtype));
    struct view sum;
    if (p.adds && !operand_local(command, &sum, "output_addr", (uint32_t)command->value[0].u, BM1690_TENSOR,
                                 out->dim, BM1690_INT32, BM1690_READ))
        return false;
    if (!command->core->counts_only)
        pool_run(out->dim.c, product_row, &p);
    return true;
}

// Pooling ---------------------------------------------------------------------------------------------------

struct pooling {
    int operation;
    const struct view *to, *from;
    struct pair kernel, stride, dilation;
    struct padding pad;
    int64_t outside, scale; // the value of elements in the padding; the factor of sums
};

static int64_t pool_window(const struct pooling *p, int n, int c, int top, int left) {
    int64_t result = 0;
    for (int i = 0; i < p->kernel.h; i++)
        for (int j = 0; j < p->kernel.w; j++) {
            int h = top + i * p->dilation.h, w = left + j * p->dilation.w;
            bool is_inside = h >= 0 && h < p->from->dim.h && w >= 0 && w < p->from->dim.w,
                 is_first = i == 0 && j == 0;
            int64_t x =
                is_inside ? element_load_int(view_row(p->from, n, c, h) + w, p->from->dtype) : p->outside;
            result = p->operation == ADD   ? result + x * p->scale
                     : is_first            ? x
                     : p->operation == MAX ? MAX_OF(result, x)
                                           : MIN_OF(result, x);
        }
    return result;
}

static void pool_channel(void *context, int part) {
    const struct pooling *p = context;
    const struct view *to = p->to;
    int n = part / to->dim.c, c = part % to->dim.c;
    int64_t least, most;
    element_range(to->dtype, &least, &most);
    for (int h = 0; h < to->dim.h; h++)
        for (int w = 0; w < to->dim.w; w++) {
            int64_t x = pool_window(p, n, c, h * p->stride.h - p->pad.top, w * p->stride.w - p->pad.left);
            element_store_int(view_row(to, n, c, h) + (size_t)w * (size_t)to->size, to->dtype,
                              MAX_OF(least, MIN_OF(most, x)));
        }
}

bool run_pool_int8(struct command *command) {
    struct pooling p = {.operation = command->operation,
                        .to = command_operand(command, 0),
                        .from = command_operand(command, 1)};
    uint32_t outside = command_value(command, "pad_val")->word;
    p.kernel = *(const struct pair *)command_value(command, "kernel")->p;
    p.stride = *(const struct pair *)command_value(command, "stride")->p;
    p.dilation = *(const struct pair *)command_value(command, "dilation")->p;
    p.pad = *(const struct padding *)command_value(command, "padding")->p;
    p.outside = command->operation == ADD ? 0 : element_load_int((const uint8_t *)&outside, p.from->dtype);
    p.scale = (int64_t)command_value(command, "scale")->u;
    if (element_is_signed(p.to->dtype) != element_is_signed(p.from->dtype))
        return command_refuse(command, "output_dtype",
                              "is %s and the input's %s; both are to be signed, or neither",
                              bm1690_dtype_name(p.to->dtype), bm1690_dtype_name(p.from->dtype));
    if (command_value(command, "rshift")->u)
        return command_refuse(command, "rshift", "is %d; the emulator has no shifts of sums: shift apart",
                              (int)command_value(command, "rshift")->u);
    command->cycles = (double)p.to->dim.n * ((p.to->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT) *
                      ((p.to->dim.h * p.to->dim.w + BM1690_VECTOR_BYTES - 1) / BM1690_VECTOR_BYTES) *
                      p.kernel.h * p.kernel.w;
    if (!command->core->counts_only)
        chip_spread(p.to, pool_channel, &p);
    return true;
}
