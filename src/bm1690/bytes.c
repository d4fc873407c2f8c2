// bytes.c - products and pooling of 8-bit integers.

#include "bm1690/number.h"

run_function run_product_int8, run_pool_int8;

// Products -----------------------------------------------------------------------------------------------------------------

static const uint8_t *matrix_element(const struct view *v, int row, int column) {
    return view_row(v, 0, row, 0) + column;
}

struct product {
    const struct view *out, *left, *right; // the result is left times right, which is transposed if the flag is set
    bool right_is_transposed, adds;
    int depth;
    int64_t left_zero, right_zero; // subtracted
};

static void product_row(void *context, int row) {
    const struct product *p = context;
    int32_t *out = (int32_t *)(void *)view_row(p->out, 0, row, 0);
    for (int j = 0; j < p->out->dim.w; j++) {
        int64_t sum = p->adds ? out[j] : 0;
        for (int k = 0; k < p->depth; k++)
            sum += (number_load_int(matrix_element(p->left, row, k), p->left->dtype) - p->left_zero) *
                   (number_load_int(p->right_is_transposed ? matrix_element(p->right, j, k) : matrix_element(p->right, k, j), p->right->dtype) - p->right_zero);
        out[j] = (int32_t)(uint32_t)(uint64_t)sum;
    }
}

// Lanes have rows; 4 columns and 64 of the depth are one cycle.
static double product_cycles(const struct product *p) {
    int64_t groups = (p->out->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT;
    return (double)(groups * ((p->depth + 63) / 64) * ((p->out->dim.w + 3) / 4));
}

// Of both transposes the result is transposed too: the right operand's rows are its rows.
bool run_product_int8(struct call *call) {
    const struct view *out = call_operand(call, 0), *left = call_operand(call, 1), *right = call_operand(call, 2);
    bool swaps = call->operation == MM_TT;
    struct product p = {.out = out, .left = swaps ? right : left, .right = swaps ? left : right,
                        .right_is_transposed = call->operation == MM_NT, .adds = call_value(call, "result_add")->i != 0,
                        .depth = call->operation == MM_NN ? right->dim.c : right->dim.w};
    uint32_t zero = call_value(call, "zp_val")->word;
    *(swaps ? &p.left_zero : &p.right_zero) = number_load_int((const uint8_t *)&zero, right->dtype);
    call->cycles = product_cycles(&p);
    if (left->dtype != right->dtype)
        return call_refuse(call, "right_zp_dtype", "is %s and left_dtype %s; they are to be the same", bm1690_dtype_name(right->dtype),
                           bm1690_dtype_name(left->dtype));
    struct view sum;
    if (p.adds && !check_local(call, &sum, "output_addr", (uint32_t)call->value[0].u, BM1690_TENSOR, out->dim, BM1690_INT32, BM1690_READ))
        return false;
    if (!call->core->counts_only)
        pool_run(out->dim.c, product_row, &p);
    return true;
}

// Pooling ------------------------------------------------------------------------------------------------------------------

struct pooling {
    int operation;
    const struct view *to, *from;
    struct pair kernel, stride, dilation;
    struct padding pad;
    int64_t outside, scale; // of elements that the padding adds; of sums
};

static int64_t pool_window(const struct pooling *p, int n, int c, int top, int left) {
    int64_t result = 0;
    for (int i = 0; i < p->kernel.h; i++)
        for (int j = 0; j < p->kernel.w; j++) {
            int h = top + i * p->dilation.h, w = left + j * p->dilation.w;
            bool is_inside = h >= 0 && h < p->from->dim.h && w >= 0 && w < p->from->dim.w, is_first = i == 0 && j == 0;
            int64_t x = is_inside ? number_load_int(view_row(p->from, n, c, h) + w, p->from->dtype) : p->outside;
            result = p->operation == ADD ? result + x * p->scale
                     : is_first          ? x
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
    number_range(to->dtype, &least, &most);
    for (int h = 0; h < to->dim.h; h++)
        for (int w = 0; w < to->dim.w; w++) {
            int64_t x = pool_window(p, n, c, h * p->stride.h - p->pad.top, w * p->stride.w - p->pad.left);
            number_store_int(view_row(to, n, c, h) + (size_t)w * (size_t)to->size, to->dtype, MAX_OF(least, MIN_OF(most, x)));
        }
}

bool run_pool_int8(struct call *call) {
    struct pooling p = {.operation = call->operation, .to = call_operand(call, 0), .from = call_operand(call, 1)};
    uint32_t outside = call_value(call, "pad_val")->word;
    p.kernel = *(const struct pair *)call_value(call, "kernel")->p;
    p.stride = *(const struct pair *)call_value(call, "stride")->p;
    p.dilation = *(const struct pair *)call_value(call, "dilation")->p;
    p.pad = *(const struct padding *)call_value(call, "padding")->p;
    p.outside = call->operation == ADD ? 0 : number_load_int((const uint8_t *)&outside, p.from->dtype);
    p.scale = (int64_t)call_value(call, "scale")->u;
    if (number_is_signed(p.to->dtype) != number_is_signed(p.from->dtype))
        return call_refuse(call, "output_dtype", "is %s and the input's %s; both are to be signed, or neither",
                           bm1690_dtype_name(p.to->dtype), bm1690_dtype_name(p.from->dtype));
    if (call_value(call, "rshift")->u)
        return call_refuse(call, "rshift", "is %d; the emulator has no shifts of sums: shift apart", (int)call_value(call, "rshift")->u);
    call->cycles = (double)p.to->dim.n * ((p.to->dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT) *
                   ((p.to->dim.h * p.to->dim.w + BM1690_VECTOR_BYTES - 1) / BM1690_VECTOR_BYTES) * p.kernel.h * p.kernel.w;
    if (!call->core->counts_only)
        chip_spread(p.to, pool_channel, &p);
    return true;
}
