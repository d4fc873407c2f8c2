// kernels_entropy.c - losses of classifiers: of each line of logits the logarithm of the sum of exponentials, less the logit of
// the target. Some threads have a line, about a quarter as many as it has classes.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { LOGITS = 0, TARGETS = 1, CLASSES_EACH = 4 };

struct recipe {
    int32_t dtype, target, lanes, wide;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

bool kernel_can_cross_entropy(const struct call *c) {
    return !array_is(c->in[LOGITS], ARRAY_INLINE) && !array_is(c->in[TARGETS], ARRAY_INLINE);
}

static const char text[] =
    "FN WIDE exp_of(WIDE x) { WIDE y; element_exp(&y, &x); return y; }\n"
    "FN WIDE log_of(WIDE x) { WIDE y; element_log(&y, &x); return y; }\n"
    "struct zl_axes { idx dim[8]; idx stride[1][8]; };\n"
    "KERNEL_OF(256) zl_kernel(GLOBAL WIDE *loss, GLOBAL WIDE *sums, GLOBAL const ITEM *x, i64 x_at, "
    "GLOBAL const TARGET *targets, i64 targets_at, idx lines, idx classes, AXES s, i32 axes) {\n"
    "    LOCAL WIDE room[256];\n"
    "    i32 lane = THREAD % LANES;\n"
    "    idx line = GROUP * (256 / LANES) + THREAD / LANES;\n"
    "    bool is_there = line < lines;\n"
    "    x += x_at + (i64)(is_there ? line : 0) * classes;\n"
    "    WIDE top = READ(x[lane < classes ? lane : 0]);\n"
    "    for (idx i = lane + LANES; i < classes; i += LANES)\n"
    "        top = MAX(top, READ(x[i]));\n"
    "    room[THREAD] = top;\n"
    "    BARRIER;\n"
    "    for (i32 span = LANES / 2; span > 0; span /= 2) {\n"
    "        if (lane < span)\n"
    "            room[THREAD] = MAX(room[THREAD], room[THREAD + span]);\n"
    "        BARRIER;\n"
    "    }\n"
    "    top = room[THREAD - lane];\n"
    "    BARRIER;\n"
    "    bool is_finite = top - top == 0;\n" // else it is the result
    "    WIDE sum = 0;\n"
    "    for (idx i = lane; i < classes && is_finite; i += LANES)\n"
    "        sum += exp_of(READ(x[i]) - top);\n"
    "    room[THREAD] = sum;\n"
    "    BARRIER;\n"
    "    for (i32 span = LANES / 2; span > 0; span /= 2) {\n"
    "        if (lane < span)\n"
    "            room[THREAD] += room[THREAD + span];\n"
    "        BARRIER;\n"
    "    }\n"
    "    if (!is_there || lane != 0)\n"
    "        return;\n"
    "    targets += targets_at;\n"
    "    idx rest = line;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = rest / s.dim[axis], at = rest - next * s.dim[axis];\n"
    "        targets += (i64)at * s.stride[0][axis];\n"
    "        rest = next;\n"
    "    }\n"
    "    i64 target = (i64)targets[0];\n"
    "    target += target < 0 ? classes : 0;\n"
    "    target = target < 0 ? 0 : target >= classes ? classes - 1 : target;\n"
    "    sum = is_finite ? log_of(room[THREAD]) : 0;\n"
    "    sums[line] = top + sum;\n"
    "    loss[line] = (top - READ(x[target])) + sum;\n" // as exact for large logits
    "}\n";

static const char *read_as(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 ? "zl_f32_of_f16(x)" : dtype == ZL_BFLOAT16 ? "zl_f32_of_bf16(x)" : "(x)";
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype, wide = dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    const char *type = kernel_memory_type(wide);
    kernel_begin(out, w->dialect, w->r->wide);
    if (!kernel_element(out, tile_row_kernel(TILE_EXP, wide, "v"), w->dialect, "element_exp") ||
        !kernel_element(out, tile_row_kernel(TILE_LOG, wide, "v"), w->dialect, "element_log"))
        return false;
    text_add(out, "#define ITEM %s\n#define TARGET %s\n#define WIDE %s\n#define MAX zl_max_%s\n",
             kernel_memory_type(dtype), kernel_memory_type((zl_dtype)w->r->target), type, type);
    text_add(out, "#define READ(x) %s\n#define LANES %d\n%s", read_as(dtype), w->r->lanes, text);
    return true;
}

static int lanes_for(int64_t classes) {
    int lanes = 1;
    while (lanes < KERNEL_THREADS && (int64_t)lanes * CLASSES_EACH < classes)
        lanes *= 2;
    return lanes;
}

bool kernel_cross_entropy(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[LOGITS], targets = c->in[TARGETS], loss = call_first(c), sums = call_output(c, 1);
    int64_t classes = x->dim[x->ndim - 1];
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 1);
    for (int i = 0; i < targets->ndim; i++)
        layout_push(&l, targets->dim[i], &array_stride(targets)[i]);
    if (l.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES, array_text(targets));
    struct recipe r = {x->dtype, targets->dtype, lanes_for(classes),
                       x->size > INT32_MAX / 2 || layout_is_wide(&l), "entropy"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *memory[] = {kernel_reach(p, loss), kernel_reach(p, sums), kernel_reach(p, x),
                      kernel_reach(p, targets)};
    kernel_add_memory(&k, memory[0]);
    kernel_add_memory(&k, memory[1]);
    kernel_add_memory(&k, memory[2]);
    kernel_add_int(&k, x->offset, true);
    kernel_add_memory(&k, memory[3]);
    kernel_add_int(&k, targets->offset, true);
    kernel_add_int(&k, l.size, r.wide);
    kernel_add_int(&k, classes, r.wide);
    kernel_add_axes(&k, &l, 1, r.wide);
    kernel_add_int(&k, l.axes, false);
    int lines = KERNEL_THREADS / r.lanes; // of a group
    return kernel && memory[0] && memory[1] && memory[2] && memory[3] &&
           kernel_launch(p, kernel, (l.size + lines - 1) / lines, &k);
}
