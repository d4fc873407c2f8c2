// gemm_order.c - the order in which elements of a matrix product are summed.
//
// Spans are so short that a panel of a and one of b fit L1 together. If columns of b are contiguous along k,
// and k is long enough, there are four chains, so that each lane of a vector sums every fourth element. A dot
// product of vectors, which is the fastest way to multiply one row, sums in this order, and packing can bring
// elements into it for the kernels of many rows. On x86_64, where the ways for few rows have an order of
// their own, chains would only cost time: there is one.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"

enum {
    CHAINED_LEAST = 384,   // of k: below it, adding up the chains would cost products of many rows more than
                           // 4 %
    SMALL_BYTES = 1 << 18, // of b, which stays in L2
};

bool gemm_is_along(const struct gemm *g) {
    return g->b_row == 1;
}

// The ways for few rows are compiled for every CPU of the architecture. On x86_64 such a CPU may lack the
// fused multiply-adds that the kernels use.
bool gemm_ways_agree(void) {
#if defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

bool gemm_keeps_order(zl_dtype dtype, const struct gemm *g) {
    return gemm_ways_agree() &&
           (device_batch_invariant() || g->n * g->k * (int64_t)zl_dtype_size(dtype) <= SMALL_BYTES);
}

// Returns whether a kernel rounds to float32 after each product.
static bool can_chain(const struct gemm_kernel *u) {
    return (u->dtype == ZL_FLOAT32 || u->dtype == ZL_FLOAT16) && u->unit == 1;
}

// Panels take half of L1, or the part that the kernel's l1_eighths says.
struct gemm_order gemm_order_of(const struct gemm_kernel *u, int64_t k, bool along) {
    const struct gemm_kernel *like = u->like ? u->like : u;
    const int64_t item = (int64_t)zl_dtype_size(u->dtype), eighths = like->l1_eighths ? like->l1_eighths : 4;
    const int64_t most = cpu_cache_bytes(1) * eighths / 8 / ((like->rows + like->cols) * item);
    struct gemm_order o = {.k = k, .step = u->step, .chains = 1, .spans = 1};
    if (along && k >= CHAINED_LEAST && can_chain(u) && gemm_ways_agree())
        o.chains = GEMM_CHAINS;
    const int64_t least = (int64_t)u->step * o.chains;
    o.span = round_up(MAX_OF(k, 1), least);
    if (o.span <= most * o.chains)
        return o;
    const int64_t wanted = divide_up(k, MAX_OF(most, u->step) * o.chains);
    o.span = round_up(divide_up(k, wanted), least);
    while (k % o.span && k % o.span < o.chains) // so that no chain of the last span is empty
        o.span += least;
    o.spans = divide_up(k, o.span);
    return o;
}

struct gemm_chain gemm_chain_at(const struct gemm_order *o, int64_t chain) {
    const int64_t span = chain / o->chains, within = chain % o->chains,
                  elements = gemm_span_elements(o, span);
    const int64_t each = elements / o->chains,
                  longer = elements % o->chains; // the number of chains that have one element more
    const int64_t length = round_up(each, o->step), more = round_up(each + 1, o->step);
    return (struct gemm_chain){.first = span * o->span + within,
                               .apart = o->chains,
                               .count = each + (within < longer),
                               .at = span * o->span + MIN_OF(within, longer) * more +
                                     MAX_OF(within - longer, 0) * length,
                               .length = within < longer ? more : length};
}

int64_t gemm_padded(const struct gemm_order *o) {
    struct gemm_chain last = gemm_chain_at(o, o->spans * o->chains - 1);
    return last.at + last.length;
}
