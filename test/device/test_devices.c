// test_devices.c - the list of devices, counters, and the device that computes nothing.

#include "test.h"

#include "device/device.h"

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
