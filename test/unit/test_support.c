// test_support.c - every op has a sample of its calls, by which it is found out whether a device runs it.

#include "test.h"
#include "op/ops.h"

// Returns whether an op needs no sample, because programs cannot call it directly: views, kernels of
// programs, derivatives, and parts of other ops.
static bool has_no_sample(const struct op *op) {
    static const struct op *const others[] = {
        &op_depends,       &op_stop_gradient,  &op_fold,       &op_attention_vjp, &op_cross_entropy_vjp,
        &op_delta_rule,    &op_delta_rule_vjp, &op_csr_sample, &op_csr_rows,      &op_stretch_with,
        &op_element_count, &op_custom_kernel,  &op_cpu_kernel, &op_cuda_kernel};
    bool is_other = op->kind == OP_VIEW;
    for (size_t i = 0; i < COUNT(others); i++)
        is_other |= others[i] == op;
    return is_other;
}

TEST(every_op_has_a_sample) {
    zl_op_support s;
    const struct op *op;
    for (int i = 0; (op = op_at(i)); i++) {
        REQUIRE(zl_device_support("cpu", i, &s));
        if (!CHECK((s.native != 0) == !has_no_sample(op)))
            test_note("%s: dtypes %x: a row of src/schedule/support.def is missing, or too much", s.op,
                      s.native);
    }
}
