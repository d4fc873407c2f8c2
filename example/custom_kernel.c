// custom_kernel.c - a kernel in C that the program brings, forward and backward: the value and the gradient
// of a loss.

#include <stdio.h>
#include <zellige.h>

static const char forward[] = "int64_t i = thread_position_in_grid.x;\n"
                              "float s = 1 / (1 + expf(-x[i]));\n"
                              "y[i] = x[i] * s;\n";

static const char backward[] = "int64_t i = thread_position_in_grid.x;\n"
                               "float s = 1 / (1 + expf(-x[i]));\n"
                               "dx[i] = g[i] * (s + x[i] * s * (1 - s));\n";

// One of the two, for each element of its first input.
static bool run(const char *name, const char *source, int count, const zl_array *in, const char *result,
                zl_outputs *out) {
    zl_shape shape = zl_shape_of(in[0]);
    zl_cpu_kernel_source k = {.name = name,
                              .source = source,
                              .inputs = count,
                              .outputs = 1,
                              .input = (const char *const[]){"x", "g"},
                              .output = &result,
                              .shape = &shape,
                              .dtype = &(zl_dtype){ZL_FLOAT32},
                              .grid = {zl_size(in[0]), 1, 1}};
    zl_array y;
    return zl_cpu_kernel(&k, count, in, &y) && zl_give(out, y);
}

static bool swish(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return run("swish", forward, count, in, "y", out);
}

static bool swish_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                      const zl_array *cotangent, zl_outputs *out) {
    (void)data, (void)count, (void)results, (void)result;
    return run("swish_vjp", backward, 2, (zl_array[]){in[0], cotangent[0]}, "dx", out);
}

static bool loss(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    static const zl_custom_fn layer = {.f = {.call = swish}, .vjp = swish_vjp};
    zl_outputs *y = zl_outputs_new();
    bool ok = y && zl_custom(&layer, count, in, y) && zl_give(out, zl_sum(zl_square(zl_outputs_get(y, 0))));
    zl_outputs_free(y);
    return ok;
}

int main(void) {
    ZL_SCOPE {
        zl_array x = zl_from_f32((float[]){-2, -1, 0, 1, 2}, ZL_SHAPE(5)), gradient;
        zl_outputs *values = zl_outputs_new();
        if (zl_value_and_grad((zl_fn){.call = loss}, 1, &x, 1, (int[]){0}, values, &gradient)) {
            char *text = zl_print(gradient);
            printf("loss %.4f\ngradient %s\n", zl_item(zl_outputs_get(values, 0)), text ? text : "");
            zl_free(text);
        }
        zl_outputs_free(values);
    }
    if (zl_error_which() == ZL_ERROR_COMPILE) {
        printf("%s\n", zl_error()); // no compiler on this machine
        return 0;
    }
    if (zl_error())
        printf("error: %s\n", zl_error());
    return zl_error() != NULL;
}
