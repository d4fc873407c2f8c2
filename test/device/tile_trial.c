// tile_trial.c - runs tile kernels on random arguments, in the interpreter and on a target, and compares the
// results.

#include "tile_trial.h"
#include "device/spirv_files.h"

#include "kernel/kernel.h"
#include "pass/pass.h"
#include "render/render.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 16 };

struct argument {
    zl_kernel_parameter parameter;
    int64_t dim[TILE_DIMS], stride[TILE_DIMS], count;
    size_t bytes;
    char *data, *wanted;
};

static bool is_whole(zl_dtype dtype) {
    return tile_type_is_integer(tile_type_of(dtype));
}

// Fills integers with numbers from 0 on, which may serve as indices, and floats with positive and negative
// numbers.
static void fill_random(struct argument *a) {
    bool is_complex = a->parameter.dtype == ZL_COMPLEX64;
    int64_t count = a->count * (is_complex ? 2 : 1);
    double *values = malloc(sizeof *values * (size_t)count);
    ZL_SCOPE {
        for (int64_t i = 0; i < count; i++)
            values[i] = is_whole(a->parameter.dtype) ? (double)test_between(0, 100)
                                                     : (double)test_between(-256, 256) / 128;
        zl_array x =
            zl_astype(zl_from_f64(values, ZL_SHAPE(count)), is_complex ? ZL_FLOAT32 : a->parameter.dtype);
        CHECK(zl_copy_to(x, a->data, a->bytes));
    }
    free(values);
}

// Sets the shape and the strides of a buffer, which are numbers, and returns the elements from its first to
// its last.
static int64_t elements(const struct tile_parameter *p, struct argument *a) {
    int64_t count = 1, far = 1;
    for (int i = a->parameter.ndim - 1; i >= 0; i--) {
        expr own = p->buffer->stride ? p->buffer->stride[i] : NULL;
        a->stride[i] = own ? tile_value_of(own->type, own->bits).i : count;
        count *= a->dim[i];
        far += (a->dim[i] - 1) * a->stride[i];
    }
    return count ? far : 0;
}

static bool make_argument(zl_kernel k, const struct tile_kernel *tile, int at, const int64_t *sizes,
                          struct argument *a) {
    if (!zl_kernel_parameter_at(k, at, &a->parameter) || !zl_kernel_shape(k, at, sizes, a->dim))
        return false;
    a->count = elements(&tile->parameter[at], a);
    a->bytes = (size_t)a->count * zl_dtype_size(a->parameter.dtype);
    a->data = calloc(1, a->bytes + 1);
    a->wanted = malloc(a->bytes + 1);
    fill_random(a);
    memcpy(a->wanted, a->data, a->bytes);
    return true;
}

// Returns an element, or a part of a complex number (0: the real part).
static double value_at(const struct argument *a, const char *data, int64_t i, int part) {
    struct tile_type type = tile_type_of(a->parameter.dtype);
    uint64_t bits = 0;
    memcpy(&bits, data + i * tile_type_bytes(type), (size_t)tile_type_bytes(type));
    union tile_value v = tile_value_of(type, bits);
    return tile_type_is_complex(type) ? (part ? v.c.im : v.c.re)
           : tile_type_is_float(type) ? v.f
                                      : (double)v.i;
}

static bool is_near(double got, double want, double near) {
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= near * fmax(1, fabs(want));
}

static void compare(const struct argument *a, const char *text, const char *target, double near) {
    for (int64_t i = 0; i < a->count; i++) {
        size_t size = zl_dtype_size(a->parameter.dtype);
        bool same = !memcmp(a->data + (size_t)i * size, a->wanted + (size_t)i * size, size);
        int part = near > 0 && a->parameter.dtype == ZL_COMPLEX64 &&
                   is_near(value_at(a, a->data, i, 0), value_at(a, a->wanted, i, 0), near);
        double got = value_at(a, a->data, i, part), want = value_at(a, a->wanted, i, part);
        if (!CHECK(same || (isnan(got) && isnan(want)) || (near > 0 && is_near(got, want, near)))) {
            test_note("%s: %s[%lld] is %g, not %g, in:\n%s", target, a->parameter.name, (long long)i, got,
                      want, text);
            return;
        }
    }
}

// Runs the text in the interpreter, and a kernel of the target, or `other` if it is not NULL.
static void trial(const char *text, const char *target, const struct tile_kernel *other, const int64_t *sizes,
                  double near) {
    struct argument argument[PARAMETERS] = {0};
    zl_kernel_buffer buffer[PARAMETERS];
    void *wanted[PARAMETERS], *data[PARAMETERS];
    struct tile_kernel *tile = tile_parse(text, "sample");
    zl_kernel k = other ? zl_kernel_parse(text, "sample") : zl_kernel_compile(text, "sample", target);
    if (!CHECK(tile && k))
        test_note("%s: %s\n%s", target, zl_error() ? zl_error() : "?", text);
    int count = k ? zl_kernel_parameters(k) : 0;
    bool good = k && count <= PARAMETERS;
    for (int i = 0; good && i < count; i++) {
        struct argument *a = &argument[i];
        good = CHECK(make_argument(k, tile, i, sizes, a));
        buffer[i] = (zl_kernel_buffer){a->data, a->parameter.dtype, a->parameter.ndim, a->dim, a->stride};
        wanted[i] = a->wanted;
        data[i] = a->data;
    }
    good = good && CHECK(tile_interpret(tile, wanted, sizes)) &&
           CHECK(other ? tile_interpret(other, data, sizes) : zl_kernel_run(k, count, buffer));
    if (!good && zl_error())
        test_note("%s: %s\n%s", target, zl_error(), text);
    for (int i = 0; i < count && i < PARAMETERS; i++) {
        if (good)
            compare(&argument[i], text, target, near);
        free(argument[i].data);
        free(argument[i].wanted);
    }
    if (!good)
        zl_clear_error();
    zl_kernel_release(k);
    tile_free(tile);
}

void tile_trial(const char *text, const char *target, const int64_t *sizes, double near) {
    trial(text, target, NULL, sizes, near);
}

char *tile_rendered(struct tile_kernel *kernel, const char *dialect) {
    struct text out = {0};
    if (render_kernel(&out, kernel, render_target(dialect)))
        return text_take(&out);
    text_free(&out);
    return NULL;
}

void tile_trial_of_groups(const char *text, const struct target *target, const int64_t *sizes, double near) {
    struct tile_kernel *kernel = tile_parse(text, "sample");
    if (CHECK(kernel && pass_run(kernel, target, "threads") && tile_verify(kernel)))
        trial(text, target->name, kernel, sizes, near);
    else
        test_note("%s: %s\n%s", target->name, zl_error() ? zl_error() : "?", text);
    zl_clear_error();
    tile_free(kernel);
}

// Chooses sizes that the kernel accepts: about forty, rounded up to multiples if it needs these.
static void choose_sizes(const struct tile_kernel *k, int64_t *sizes) {
    for (int i = 0; i < k->symbols; i++) {
        const struct tile_name *s = k->symbol[i];
        int64_t step = MAX_OF(s->divisor, 1), size = (40 + 3 * i + step - 1) / step * step;
        sizes[i] = MAX_OF(MIN_OF(size, s->high), MAX_OF(s->low, 0));
    }
}

void tile_trial_of_manual(const char *target) {
    char *text = file_read(ZL_TEST_DIR "/../doc/tile.md", NULL);
    REQUIRE(text);
    int count = 0, step = test_step(2), first = (int)test_between(0, step - 1);
    for (char *at = strstr(text, "```tile\n"), *end; at && (end = strstr(at + 8, "```"));
         at = strstr(end + 3, "```tile\n")) {
        int64_t sizes[8] = {0};
        *end = 0;
        struct tile_kernel *k = tile_parse(at + 8, "tile.md");
        if (CHECK(k) && k->symbols <= 8)
            choose_sizes(k, sizes);
        bool prints = strstr(at, " print ") && !strcmp(target, "vulkan"); // Vulkan has no output for `print`
        bool is_tpu = !strcmp(target, "bm1690");
        if (k && k->symbols <= 8 && !prints) {
            // Where atomics return the old value, the order of blocks matters: then only checks that it runs.
            // The BM1690's quotients are not exact, so codes that are rounded from them may differ by one.
            bool is_open = strstr(at, " = atomic "), is_code = is_tpu && strstr(at, "codes[");
            if (count % step == first)
                tile_trial(at + 8, target, sizes, is_open ? INFINITY : is_code ? 1 : 2e-3);
            count++;
        }
        tile_free(k);
    }
    CHECK(count >= 9);
    memory_free(text);
}

bool tile_renders(const struct tile_kernel *kernel) {
    static const char *const dialects[] = {"opencl_tiles", "opencl_cpu_tiles", "cuda_tiles", "hip_tiles"};
    bool good = true;
    for (size_t i = 0; i < COUNT(dialects); i++) {
        struct tile_kernel *copy = kernel_copy(kernel);
        char *text = copy ? tile_rendered(copy, dialects[i]) : NULL;
        good = good && text;
        memory_free(text);
        tile_free(copy);
    }
    return good && spirv_files_keep(kernel);
}
