// test_spirv_rows.c - row kernels on the target vulkan have the same bits as in the interpreter: every op and
// conversion, also for special numbers.

#include "render/trial.h"

#include "device/cpu/cpu.h"
#include "zellige_tile.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 64 << 10 };

static zl_kernel current;

// Runs a kernel. A trial lists outputs first, then inputs; the target needs inputs first.
static void run_on_vulkan(char *const *p, int64_t n, int64_t run) {
    int count = zl_kernel_parameters(current), outputs = 0, output = 0, input = 0;
    zl_kernel_buffer buffer[TRIAL_PARAMETERS];
    zl_kernel_parameter parameter[TRIAL_PARAMETERS];
    int64_t dim[TRIAL_PARAMETERS], stride = 1;
    (void)run;
    for (int i = 0; i < count; i++)
        outputs += zl_kernel_parameter_at(current, i, &parameter[i]) && parameter[i].is_output;
    for (int i = 0; i < count; i++) {
        char *data = p[parameter[i].is_output ? output++ : outputs + input++];
        CHECK(zl_kernel_shape(current, i, &n, &dim[i]));
        buffer[i] = (zl_kernel_buffer){data, parameter[i].dtype, 1, &dim[i], &stride};
    }
    if (!CHECK(zl_kernel_run(current, count, buffer)))
        test_note("%s", zl_error());
    zl_clear_error();
}

static bool has_vulkan(void) {
    zl_kernel k = zl_kernel_compile(
        "kernel one(a: f32[n]) -> (y: f32[n]) {\n  map i in n { y[i] = a[i] }\n}\n", "one", "vulkan");
    zl_clear_error();
    zl_kernel_release(k);
    return k;
}

// Returns whether a result is not fully determined. Which of several complex NaNs a reduction gives depends
// on its order. Mesa's lavapipe replaces 0 + x by x even if x is -0, so formulas that add a constant 0 have
// zeros of the other sign.
static bool is_left_open(const struct tile_kernel *k) {
    bool is_complex = tile_type_is_complex(k->parameter[0].buffer->type);
    return strstr(k->name, "quotient_") ||
           (is_complex &&
            (k->body->kind != TILE_MAP || strstr(k->name, "divide_") || strstr(k->name, "reciprocal_")));
}

static void check_row(int at) {
    struct trial t;
    bool good = trial_open(&t, trial_kernel(at)) && !is_left_open(t.kernel);
    char *text = good ? tile_print(t.kernel) : NULL;
    current = text ? zl_kernel_compile(text, t.kernel->name, "vulkan") : NULL;
    bool is_lacking = !current && zl_error() && strstr(zl_error(), "does not have"); // a dtype
    if (good && !is_lacking && !CHECK(current && trial_check(&t, run_on_vulkan, TRIAL_MOST, false)) &&
        zl_error())
        test_note("%s", zl_error());
    zl_clear_error();
    zl_kernel_release(current);
    memory_free(text);
    trial_close(&t);
}

TEST(rows_on_vulkan_equal_the_interpreter) {
    if (!has_vulkan())
        SKIP("there is no Vulkan device");
    int every = test_quick() ? 64 : test_long() ? 1 : 16, count = 0;
    for (int i = 0; i < ROWS; i++)
        if (trial_function(cpu_level()->rows, i) && test_between(1, every) == 1) {
            check_row(i);
            count++;
        }
    CHECK(count > 10);
}
