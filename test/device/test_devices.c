// test_devices.c - the list of devices, overrides of tile kernels, counters, and the device that computes
// nothing.

#include "test.h"

#include "device/kernels/kernels.h"
#include "op/ops.h"

#include <string.h>

TEST(the_list_of_devices) {
    zl_device_info info;
    int count = 0;
    bool cpu = false;
    for (; zl_device(count, &info); count++) {
        CHECK(info.device && info.model && info.detail && info.reason);
        CHECK(info.available || *info.reason);
        if (strcmp(info.device, "cpu") != 0)
            continue;
        cpu = true;
        CHECK(info.available && info.cores >= 1 && info.memory > 0 && *info.model && *info.detail);
        CHECK_HAS(info.detail, "BLAS");
    }
    CHECK(cpu && count >= device_count());
    CHECK(!zl_device(-1, &info));
    CHECK(!zl_device(count, &info));
    CHECK(!zl_device(0, NULL));
}

TEST(unknown_devices) {
    CHECK_ERROR(ZL_ERROR_DEVICE, device_find("abacus", NULL));
    CHECK_HAS(test_last_error(), "abacus");
    CHECK_HAS(test_last_error(), "cpu");
    CHECK_ERROR(ZL_ERROR_DEVICE, device_find(NULL, NULL));
    CHECK(device_at(-1) == NULL && device_at(device_count()) == NULL);
}

// Ops that the CPU runs.
static const struct op *const of_cpu[] = {
#define CPU_OP(op, ...) &op_##op,
#include "device/cpu/cpu_ops.def"
};

static bool is_of_cpu(const struct op *op) {
    for (size_t i = 0; i < COUNT(of_cpu); i++)
        if (of_cpu[i] == op)
            return true;
    return false;
}

// Checks that each op of an override also has the other definition that the list names.
static void check_ops(const zl_kernel_override *o) {
    bool is_tiles = !strcmp(o->otherwise, "tile kernels");
    CHECK(is_tiles || !strcmp(o->otherwise, "cpu"));
    for (const char *name = o->ops; *name; name += strspn(name, " ")) {
        size_t len = strcspn(name, " ");
        const struct op *op = op_find(name, len);
        if (!CHECK(op && (is_tiles ? kernels_have(op) : is_of_cpu(op))))
            test_note("%s %s: nothing else runs %.*s", o->device, o->name, (int)len, name);
        name += len;
    }
}

TEST(overrides_are_few_and_not_alone) {
    enum { MOST = 12, LINES_MOST = 900 };
    zl_kernel_override o;
    int count = 0, lines = 0;
    for (; zl_kernel_override_at(count, &o); count++) {
        CHECK(!strcmp(o.device, "cuda")); // no other device has overrides
        CHECK(*o.name && *o.ops && *o.reason && *o.measured);
        CHECK(o.lines ? !strcmp(o.kind, "kernel") : !strcmp(o.kind, "library"));
        check_ops(&o);
        lines += o.lines;
    }
    CHECK(count > 0 && count <= MOST);
    CHECK(lines > 0 && lines <= LINES_MOST);
    CHECK(!zl_kernel_override_at(-1, &o) && !zl_kernel_override_at(0, NULL));
}

TEST(support_is_asked_of_a_device) {
    zl_op_support s;
    const struct op *op;
    for (int i = 0; (op = op_at(i)); i++) {
        REQUIRE(zl_device_support("cpu", i, &s));
        CHECK(!strcmp(s.op, op->name) && !s.elsewhere && !s.reason);
        if (op->kind == OP_REDUCE || op == &op_sort)
            CHECK(s.native >> ZL_FLOAT32 & 1 && s.native >> ZL_INT8 & 1);
    }
    CHECK(!zl_device_support("cpu", 1000, &s) && !zl_error());
    CHECK(!zl_device_support("cpu", -1, &s) && !zl_error());
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_device_support("abacus", 0, &s));
}

TEST(counters_by_name) {
    CHECK_EQ_INT(zl_counter("no such thing"), -1);
    CHECK_EQ_INT(zl_counter(NULL), -1);
    int64_t before = zl_counter("kernels");
    CHECK(before >= 0);
    CHECK(zl_eval(zl_add(zl_zeros(ZL_SHAPE(3), ZL_FLOAT32), zl_scalar(1))));
    CHECK(zl_counter("kernels") > before);
}

TEST(the_null_device) {
    zl_stream stream = zl_new_stream("null");
    REQUIRE(stream);
    zl_scope scope = zl_scope_begin_on(stream);
    zl_array x = zl_zeros(ZL_SHAPE(2, 3), ZL_FLOAT32);
    zl_array y = zl_sum(zl_exp(zl_matmul(x, zl_matrix_transpose(x))));
    CHECK(zl_eval(y));
    CHECK(zl_is_available(y));
    zl_scope_end(scope);
}
