// operand.c - finds the operands of a command by the layouts of the table, and checks them.
//
// Besides the rules of the table, it checks that local ranges end within their lane, that bytes that are read
// were written since the launch began, and that in a parallel region DMA and compute do not access the same
// bytes if one of them writes.

#include "bm1690/chip.h"

enum { SHAPE_MOST = 65535, STRIDE_MOST = (1 << 18) - 1 };

// Parameters ------------------------------------------------------------------------------------------------

static bool check_dims(struct command *command, const struct bm1690_parameter *p, const int32_t *number,
                       int least, int most) {
    for (int i = 0; i < 4; i++)
        if (number[i] < least || number[i] > most)
            return command_refuse(command, p->name, "is {%d,%d,%d,%d}; each is to be within %d to %d",
                                  number[0], number[1], number[2], number[3], least, most);
    return true;
}

static bool check_dtype(struct command *command, const struct bm1690_parameter *p, int64_t dtype) {
    struct text list = {0};
    bool known = dtype >= 0 && dtype <= BM1690_FP8E4M3 && bm1690_dtype_bytes((enum bm1690_dtype)dtype) > 0;
    if (known && (BM1690_BIT(dtype) & p->dtypes))
        return true;
    for (int i = 0; i <= BM1690_FP8E4M3; i++)
        if (bm1690_dtype_bytes((enum bm1690_dtype)i) > 0 && (BM1690_BIT(i) & p->dtypes))
            text_add(&list, " %s", bm1690_dtype_name((enum bm1690_dtype)i));
    command_refuse(command, p->name, "is %lld (%s); it is to be one of%s", (long long)dtype,
                   bm1690_dtype_name((enum bm1690_dtype)dtype), list.data ? list.data : "");
    text_free(&list);
    return false;
}

static bool check_number(struct command *command, const struct bm1690_parameter *p, int64_t value) {
    return p->layout == BM1690_COEFFICIENTS || (p->least == 0 && p->most == 0) ||
           (value >= p->least && value <= p->most) ||
           command_refuse(command, p->name, "is %lld; it is to be within %d to %d", (long long)value,
                          p->least, p->most);
}

static bool check_parameter(struct command *command, const struct bm1690_parameter *p,
                            const union bm1690_value *v) {
    bool is_control = command->row->engine == BM1690_CONTROL;
    switch (p->kind) {
    case BM1690_KIND_SHAPE:
        return (v->p || command_refuse(command, p->name, "is NULL; it is to be a shape")) &&
               (is_control || check_dims(command, p, v->p, 1, SHAPE_MOST));
    case BM1690_KIND_DIM4_OUT:
    case BM1690_KIND_PAIR:
    case BM1690_KIND_PADDING:
    case BM1690_KIND_VARIABLE: return v->p || command_refuse(command, p->name, "is NULL");
    case BM1690_KIND_DTYPE: return check_dtype(command, p, v->i);
    default: return check_number(command, p, v->i);
    }
}

bool operand_check_values(struct command *command) {
    const struct bm1690_parameter *p = command->row->parameter;
    for (int i = 0; i < BM1690_PARAMETERS && p[i].name; i++)
        if (!check_parameter(command, &p[i], &command->value[i]))
            return false;
    return true;
}

// Layouts ---------------------------------------------------------------------------------------------------

void operand_aligned_strides(int64_t *stride, int lane, struct dims dim, enum bm1690_dtype dtype) {
    stride[3] = 1;
    stride[2] = dim.w;
    stride[1] = round_up((int64_t)dim.h * dim.w, BM1690_VECTOR_BYTES / bm1690_dtype_bytes(dtype));
    stride[0] = (lane + dim.c + BM1690_LANE_COUNT - 1) / BM1690_LANE_COUNT * stride[1];
}

static void contiguous_strides(int64_t *stride, struct dims dim) {
    stride[3] = 1;
    stride[2] = dim.w;
    stride[1] = (int64_t)dim.h * dim.w;
    stride[0] = dim.c * stride[1];
}

// The rows of the table name parameters. Their indices are found once.
static struct {
    struct lock lock;
    atomic_bool known;
    int8_t of[512][BM1690_PARAMETERS][BM1690_OF];
} found;

ZL_AT_LOAD {
    fork_guard(&found.lock);
}

static int find_of(const struct bm1690_command *c, const char *name) {
    for (int i = 0; name && *name && i < BM1690_PARAMETERS && c->parameter[i].name; i++)
        if (!strcmp(c->parameter[i].name, name))
            return i;
    return -1;
}

static void find_all(void) {
    lock_take(&found.lock);
    for (int k = 0; !atomic_load(&found.known) && k < bm1690_command_count; k++)
        for (int i = 0; i < BM1690_PARAMETERS; i++)
            for (int j = 0; j < BM1690_OF; j++)
                found.of[k][i][j] =
                    (int8_t)find_of(&bm1690_commands[k], bm1690_commands[k].parameter[i].of[j]);
    atomic_store(&found.known, true);
    lock_give(&found.lock);
}

static const union bm1690_value *value_of(const struct command *command, int parameter, int place) {
    int at = found.of[command->row - bm1690_commands][parameter][place];
    return at < 0 ? NULL : &command->value[at];
}

static int64_t number_of(const struct command *command, int parameter, int place) {
    const union bm1690_value *v = value_of(command, parameter, place);
    return v ? v->i : 0;
}

static enum bm1690_dtype dtype_of(const struct command *command, int parameter, int place,
                                  enum bm1690_dtype otherwise) {
    const union bm1690_value *v = value_of(command, parameter, place);
    return v ? (enum bm1690_dtype)v->i : otherwise;
}

// Sets *dim to the shape of the result of pooling.
static bool pooled_dims(struct command *command, struct dims *dim) {
    const struct pair *kernel = command_value(command, "kernel")->p,
                      *stride = command_value(command, "stride")->p,
                      *dilation = command_value(command, "dilation")->p;
    const struct padding *pad = command_value(command, "padding")->p;
    if (kernel->h < 1 || kernel->w < 1 || kernel->h > SHAPE_MOST || kernel->w > SHAPE_MOST)
        return command_refuse(command, "kernel", "is {%d,%d}; each is to be within 1 to %d", kernel->h,
                              kernel->w, SHAPE_MOST);
    if (stride->h < 1 || stride->w < 1 || stride->h > 15 || stride->w > 15)
        return command_refuse(command, "stride", "is {%d,%d}; each is to be within 1 to 15", stride->h,
                              stride->w);
    if (dilation->h < 1 || dilation->w < 1 || dilation->h > 15 || dilation->w > 15)
        return command_refuse(command, "dilation", "is {%d,%d}; each is to be within 1 to 15", dilation->h,
                              dilation->w);
    if ((pad->top | pad->bottom | pad->left | pad->right) & ~15)
        return command_refuse(command, "padding", "is {%d,%d,%d,%d}; each is to be within 0 to 15", pad->top,
                              pad->bottom, pad->left, pad->right);
    int h = (dim->h + pad->top + pad->bottom - (dilation->h * (kernel->h - 1) + 1)),
        w = (dim->w + pad->left + pad->right - (dilation->w * (kernel->w - 1) + 1));
    if (h < 0 || w < 0)
        return command_refuse(command, "kernel",
                              "is {%d,%d}, larger than the input of %d x %d with its padding", kernel->h,
                              kernel->w, dim->h, dim->w);
    dim->h = h / stride->h + 1;
    dim->w = w / stride->w + 1;
    return true;
}

static struct dims dims_at(const struct command *command, int parameter) {
    return *(const struct dims *)value_of(command, parameter, 0)->p;
}

// Sets the dims and the dtype of an operand by its layout, and *given to the strides that the command passed.
static bool find_layout(struct command *command, int i, struct view *v, const int32_t **given) {
    enum bm1690_layout layout = command->row->parameter[i].layout;
    *given = NULL;
    switch (layout) {
    case BM1690_TENSOR:
    case BM1690_SWAPPED:
    case BM1690_EXCHANGED:
    case BM1690_ONE_LANE: {
        struct dims d = dims_at(command, i);
        const union bm1690_value *stride = value_of(command, i, 1);
        v->dim = layout == BM1690_SWAPPED     ? (struct dims){d.n, d.w, d.h, d.c}
                 : layout == BM1690_EXCHANGED ? (struct dims){d.c, d.n, d.h, d.w}
                 : layout == BM1690_ONE_LANE  ? (struct dims){d.n, 1, d.h, d.w}
                                              : d;
        *given = stride ? stride->p : NULL;
        v->dtype = dtype_of(command, i, 2, BM1690_FP32);
        return true;
    }
    case BM1690_MATRIX:
        v->dim = (struct dims){1, (int)number_of(command, i, 0), 1, (int)number_of(command, i, 1)};
        v->dtype = dtype_of(command, i, 2, BM1690_FP32);
        return true;
    case BM1690_SPLIT: {
        int per = (int)number_of(command, i, 2), columns = (int)number_of(command, i, 1);
        v->dim = (struct dims){(int)number_of(command, i, 0), (columns + per - 1) / per, 1, per};
        v->dtype = dtype_of(command, i, 3, BM1690_FP32);
        return true;
    }
    case BM1690_LINES:
        v->dim = (struct dims){1, 1, (int)number_of(command, i, 0), (int)number_of(command, i, 1)};
        v->dtype = dtype_of(command, i, 3, BM1690_FP32);
        return true;
    case BM1690_LINE:
        v->dim = (struct dims){1, 1, 1, (int)number_of(command, i, 0)};
        v->dtype = dtype_of(command, i, 1, BM1690_FP32);
        return true;
    case BM1690_PACKED_LANES:
    case BM1690_LANES:
        v->dim = (struct dims){1, (int)number_of(command, i, 0), 1,
                               value_of(command, i, 1) ? (int)number_of(command, i, 1) : 1};
        v->dtype = dtype_of(command, i, 2, BM1690_INT32);
        return true;
    case BM1690_POOLED:
        v->dim = dims_at(command, i);
        v->dtype = dtype_of(command, i, 1, BM1690_FP32);
        return pooled_dims(command, &v->dim);
    case BM1690_LINE_ALIGNED:
        v->dim = dims_at(command, i);
        v->dtype = dtype_of(command, i, 1, BM1690_FP32);
        return true;
    case BM1690_COLUMN:
        v->dim = (struct dims){1, dims_at(command, i).c, 1, 1};
        v->dtype = dtype_of(command, i, 1, BM1690_FP32);
        return true;
    case BM1690_COEFFICIENTS: {
        v->dtype = dtype_of(command, i, 0, BM1690_FP32);
        v->dim = (struct dims){1, BM1690_LANE_COUNT, 1,
                               chip_constants_count(command->row->parameter[i].least, v->dtype)};
        return true;
    }
    default: return true;
    }
}

// Ranges ----------------------------------------------------------------------------------------------------

// Returns the bytes from element 0 to the end of the last one; in local memory, within a lane.
static int64_t extent(const struct view *v) {
    int64_t channels = v->is_local ? (v->lane + v->dim.c - 1) / BM1690_LANE_COUNT : v->dim.c - 1;
    return ((v->dim.n - 1) * v->stride[0] + channels * v->stride[1] + (v->dim.h - 1) * v->stride[2] +
            (v->dim.w - 1) * v->stride[3] + 1) *
           v->size;
}

// Calls fn with each contiguous range of a local view: its lane, its first byte there, its bytes. Stops when
// fn returns false.
typedef bool range_function(void *context, int lane, uint32_t begin, uint32_t bytes);
static bool each_range(const struct view *v, range_function *fn, void *context) {
    int h = v->stride[2] ? v->dim.h : 1, w = v->stride[3] ? v->dim.w : 1;
    if (v->stride[3] == 1 && (h == 1 || v->stride[2] == w)) { // rows are contiguous
        w *= h;
        h = 1;
    }
    int runs = v->stride[3] == 1 || w == 1 ? 1 : w;
    uint32_t bytes = (uint32_t)(v->size * (w / runs));
    for (int n = 0; n < v->dim.n; n++)
        for (int c = 0; c < v->dim.c; c++)
            for (int y = 0; y < h; y++)
                for (int x = 0; x < runs; x++) {
                    int lane = v->lane + c;
                    int64_t at = n * v->stride[0] + lane / BM1690_LANE_COUNT * v->stride[1] +
                                 y * v->stride[2] + x * v->stride[3];
                    if (!fn(context, lane % BM1690_LANE_COUNT, v->offset + (uint32_t)(at * v->size), bytes))
                        return false;
                }
    return true;
}

// Bits ------------------------------------------------------------------------------------------------------

static uint64_t low_bits(int count) {
    return count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

static void set_bits(uint64_t *word, uint32_t begin, uint32_t count, bool value) {
    for (uint32_t at = begin, end = begin + count; at < end;) {
        uint32_t some = MIN_OF(64 - at % 64, end - at);
        uint64_t mask = low_bits((int)some) << at % 64;
        word[at / 64] = value ? word[at / 64] | mask : word[at / 64] & ~mask;
        at += some;
    }
}

// Returns the first bit that is not `value`, or the end.
static uint32_t find_other(const uint64_t *word, uint32_t begin, uint32_t count, bool value) {
    for (uint32_t at = begin, end = begin + count; at < end;) {
        uint32_t some = MIN_OF(64 - at % 64, end - at);
        uint64_t other = (value ? ~word[at / 64] : word[at / 64]) >> at % 64 & low_bits((int)some);
        if (other)
            return at + (uint32_t)__builtin_ctzll(other);
        at += some;
    }
    return begin + count;
}

static uint64_t *lane_bits(const struct core *core, int lane) {
    return core->written + (size_t)lane * (BM1690_LANE_BYTES / 64);
}

struct reading {
    struct core *core;
    int lane;
    uint32_t at;
};

static bool is_written(void *context, int lane, uint32_t begin, uint32_t bytes) {
    struct reading *r = context;
    r->lane = lane;
    r->at = find_other(lane_bits(r->core, lane), begin, bytes, true);
    return r->at == begin + bytes;
}

static bool mark(void *context, int lane, uint32_t begin, uint32_t bytes) {
    set_bits(lane_bits(context, lane), begin, bytes, true);
    return true;
}

static bool unmark(void *context, int lane, uint32_t begin, uint32_t bytes) {
    set_bits(lane_bits(context, lane), begin, bytes, false);
    return true;
}

static bool check_written(struct command *command, const struct view *v, const char *name) {
    struct reading r = {.core = command->core};
    return command->core->counts_only || !(v->access & BM1690_READ) || each_range(v, is_written, &r) ||
           command_refuse(command, name, "reads byte 0x%x of lane %d, which no command has written", r.at,
                          r.lane);
}

void operand_mark_written(struct command *command) {
    for (int i = 0; i < command->views; i++) {
        const struct view *v = command_operand(command, i);
        if (v->is_local && (v->access & BM1690_SCRATCH))
            each_range(v, unmark, command->core);
    }
    for (int i = 0; i < command->views; i++) {
        const struct view *v = command_operand(command, i);
        if (v->is_local && (v->access & BM1690_WRITE))
            each_range(v, mark, command->core);
    }
}

void operand_assume_written(struct core *core, uint64_t address) {
    uint32_t begin = (uint32_t)(address % BM1690_LANE_BYTES);
    set_bits(lane_bits(core, (int)(address / BM1690_LANE_BYTES)), begin, BM1690_LANE_BYTES - begin, true);
}

// Parallel regions ------------------------------------------------------------------------------------------

static uint64_t lanes_of(const struct view *v) {
    if (v->dim.c >= BM1690_LANE_COUNT)
        return ~UINT64_C(0);
    uint64_t bits = low_bits(v->dim.c);
    return v->lane ? bits << v->lane | bits >> (BM1690_LANE_COUNT - v->lane) : bits;
}

static bool mark_bytes(void *context, int lane, uint32_t begin, uint32_t bytes) {
    (void)lane;
    set_bits(context, begin, bytes, true);
    return true;
}

static bool are_free(void *context, int lane, uint32_t begin, uint32_t bytes) {
    (void)lane;
    return find_other(context, begin, bytes, false) == begin + bytes;
}

// Returns whether two views share a byte. Bounding boxes may overlap without that: for example, two buffers
// that alternate row by row.
static bool share_bytes(const struct view *a, const struct view *b) {
    uint64_t *bits = memory_zero(BM1690_LANE_BYTES / 8);
    bool shared = !bits || (each_range(a, mark_bytes, bits), !each_range(b, are_free, bits));
    memory_free(bits);
    return shared;
}

static bool conflicts(const struct touch *a, const struct touch *b) {
    return a->engine != b->engine && ((a->view.access | b->view.access) & (BM1690_WRITE | BM1690_SCRATCH)) &&
           a->begin < b->end && b->begin < a->end && (lanes_of(&a->view) & lanes_of(&b->view)) &&
           share_bytes(&a->view, &b->view);
}

static bool check_touch(struct command *command, const struct view *v, const char *name) {
    struct core *core = command->core;
    struct touch t = {.view = *v,
                      .command = command->row,
                      .engine = command->row->engine,
                      .begin = v->offset,
                      .end = v->offset + (uint32_t)extent(v)};
    if (!core->is_parallel)
        return true;
    for (int i = 0; i < core->touches; i++)
        if (conflicts(&t, &core->touched[i]))
            return command_refuse(command, name,
                                  "(bytes 0x%x to 0x%x of the lanes) conflicts with %s in the same parallel "
                                  "region, which %s bytes 0x%x "
                                  "to 0x%x: end the region between them, or give one of them another buffer",
                                  t.begin, t.end, core->touched[i].command->name,
                                  core->touched[i].view.access & BM1690_READ ? "reads" : "writes",
                                  core->touched[i].begin, core->touched[i].end);
    if (!memory_grow(&core->touched, &core->touch_cap, core->touches + 1, sizeof *core->touched))
        return false;
    core->touched[core->touches++] = t;
    return true;
}

// Operands --------------------------------------------------------------------------------------------------

// Checks strides that the command passed. Along an axis of size 1, any stride is allowed.
static bool check_strides(struct command *command, const struct bm1690_parameter *p, const struct view *v,
                          const int32_t *given) {
    const int32_t size[] = {v->dim.n, v->dim.c, v->dim.h, v->dim.w};
    for (int i = 0; i < 4; i++)
        if (size[i] > 1 && (given[i] < 0 || given[i] > STRIDE_MOST))
            return command_refuse(
                command, p->name,
                "has the strides {%d,%d,%d,%d}; in local memory each is to be within 0 to %d", given[0],
                given[1], given[2], given[3], STRIDE_MOST);
    return true;
}

// Sets the strides in local memory: those that the command passed, or those of the layout.
static void local_strides(struct view *v, enum bm1690_layout layout, const int32_t *given) {
    operand_aligned_strides(v->stride, v->lane, v->dim, v->dtype);
    int64_t groups = v->stride[0] / v->stride[1];
    if (layout == BM1690_LINE_ALIGNED && v->dim.h > 1) {
        v->stride[2] = round_up(v->dim.w, BM1690_VECTOR_BYTES / v->size);
        v->stride[1] = v->dim.h * v->stride[2];
        v->stride[0] = groups * v->stride[1];
    }
    if (layout == BM1690_COLUMN || layout == BM1690_PACKED_LANES) {
        v->stride[1] = (int64_t)v->dim.h * v->dim.w;
        v->stride[0] = groups * v->stride[1];
    }
    for (int i = 0; given && i < 4; i++)
        v->stride[i] = given[i];
}

static bool finish_local(struct command *command, struct view *v, const char *name, uint64_t address,
                         enum bm1690_layout layout, const int32_t *given) {
    bool is_packed = given || layout == BM1690_COLUMN || layout == BM1690_PACKED_LANES;
    bool is_tiu = command->row->engine == BM1690_TIU;
    int alignment = is_packed || !is_tiu ? v->size : BM1690_VECTOR_BYTES;
    v->is_local = true;
    v->lane = (int)(address / BM1690_LANE_BYTES);
    v->offset = (uint32_t)(address % BM1690_LANE_BYTES);
    v->data = command->core->local + v->offset;
    if (address >= (uint64_t)BM1690_LANE_BYTES * BM1690_LANE_COUNT)
        return command_refuse(command, name, "is 0x%llx; local memory ends at 0x%x",
                              (unsigned long long)address, BM1690_LANE_BYTES * BM1690_LANE_COUNT);
    if (address % (unsigned)alignment)
        return command_refuse(command, name, "is 0x%llx; it is to be a multiple of %d bytes%s",
                              (unsigned long long)address, alignment,
                              alignment == v->size ? ", the size of its elements" : ", as it has no stride");
    local_strides(v, layout, given);
    int64_t end = v->offset + extent(v);
    if (end > BM1690_LANE_BYTES)
        return command_refuse(
            command, name,
            "is 0x%llx, a %s tensor {%d,%d,%d,%d} whose end is byte %lld of its lanes; a lane has %d bytes",
            (unsigned long long)address, bm1690_dtype_name(v->dtype), v->dim.n, v->dim.c, v->dim.h, v->dim.w,
            (long long)end, BM1690_LANE_BYTES);
    return check_written(command, v, name) && check_touch(command, v, name);
}

// line: elements from row to row, or 0 if rows are contiguous.
static bool finish_far(struct command *command, struct view *v, const char *name, uint64_t address,
                       int64_t line, const int32_t *given) {
    v->is_local = false;
    v->lane = 0;
    v->offset = 0;
    contiguous_strides(v->stride, v->dim);
    if (line)
        v->stride[2] = line;
    for (int k = 0; given && k < 4; k++) {
        v->stride[k] = given[k];
        if (given[k] < 0)
            return command_refuse(command, name, "has the strides {%d,%d,%d,%d}; none may be negative",
                                  given[0], given[1], given[2], given[3]);
    }
    if (address % (unsigned)v->size)
        return command_refuse(command, name,
                              "is 0x%llx; it is to be a multiple of %d bytes, the size of its elements",
                              (unsigned long long)address, v->size);
    v->data = chip_memory(command->core->chip, address, (uint64_t)extent(v));
    return v->data ||
           command_refuse(command, name,
                          "is 0x%llx: its %lld bytes are in no allocation of the device, nor in L2",
                          (unsigned long long)address, (long long)extent(v));
}

// Checks that matrices and constants begin in lane 0, and that constants which are read are still the ones
// that the command needs.
static bool check_start(struct command *command, const struct bm1690_parameter *p, const struct view *v) {
    if (p->layout == BM1690_MATRIX && v->lane != 0)
        return command_refuse(command, p->name, "begins in lane %d; operands of a product begin in lane 0",
                              v->lane);
    if (p->layout == BM1690_COEFFICIENTS && v->lane != 0)
        return command_refuse(command, p->name, "begins in lane %d; constants begin in lane 0", v->lane);
    if (p->layout == BM1690_COEFFICIENTS && (v->access & BM1690_READ) && !command->core->counts_only &&
        !chip_constants_are_there(v, p->least))
        return command_refuse(command, p->name,
                              "holds other bytes than the constants of this function: a command has written "
                              "there since they were loaded, or those of another function were");
    return true;
}

static bool check_operand(struct command *command, int i) {
    const struct bm1690_parameter *p = &command->row->parameter[i];
    struct view *v = &command->view[i];
    const int32_t *given = NULL;
    v->access = p->access;
    if (!find_layout(command, i, v, &given))
        return false;
    v->size = bm1690_dtype_bytes(v->dtype);
    if (p->kind == BM1690_KIND_LOCAL
            ? !((!given || check_strides(command, p, v, given)) &&
                finish_local(command, v, p->name, command->value[i].u, p->layout, given) &&
                check_start(command, p, v))
            : !finish_far(command, v, p->name, command->value[i].u,
                          p->layout == BM1690_LINES ? number_of(command, i, 2) : 0, given))
        return false;
    command->operand[command->views++] = i;
    return true;
}

// Checks that the operands of a TIU command begin in the same lane, because lanes compute on their own
// memory. Commands that move elements between lanes are exempt.
static bool check_lanes(struct command *command) {
    const struct view *first = NULL;
    if (command->row->engine != BM1690_TIU || command->operation == ANY_LANE ||
        command->operation == TRANSPOSE_CW_TIU || command->operation == TRANSPOSE_WC_TIU)
        return true;
    for (int i = 0; i < command->views; i++) {
        const struct bm1690_parameter *p = &command->row->parameter[command->operand[i]];
        const struct view *v = command_operand(command, i);
        if (p->layout == BM1690_COEFFICIENTS || p->layout == BM1690_SPLIT)
            continue;
        if (first && v->lane != first->lane)
            return command_refuse(command, p->name,
                                  "begins in lane %d, %s in lane %d; they are to begin in the same", v->lane,
                                  command->row->parameter[command->operand[0]].name, first->lane);
        first = first ? first : v;
    }
    return true;
}

bool operand_check_all(struct command *command) {
    const struct bm1690_parameter *p = command->row->parameter;
    if (!atomic_load_explicit(&found.known, memory_order_acquire))
        find_all();
    for (int i = 0; i < BM1690_PARAMETERS && p[i].name; i++)
        if (p[i].layout != BM1690_NO_LAYOUT && p[i].layout != BM1690_BY_CALL && !check_operand(command, i))
            return false;
    return check_lanes(command);
}

bool operand_local(struct command *command, struct view *v, const char *name, uint32_t address,
                   enum bm1690_layout layout, struct dims dim, enum bm1690_dtype dtype, int access) {
    *v = (struct view){.dim = dim, .dtype = dtype, .size = bm1690_dtype_bytes(dtype), .access = access};
    return finish_local(command, v, name, address, layout, NULL);
}

bool operand_either(struct command *command, struct view *v, const char *name, bool is_local, struct dims dim,
                    const char *stride, enum bm1690_dtype dtype) {
    const int32_t *given = command_value(command, stride)->p;
    uint64_t address = command_value(command, name)->u;
    *v = (struct view){.dim = dim, .dtype = dtype, .size = bm1690_dtype_bytes(dtype), .access = BM1690_READ};
    return is_local ? finish_local(command, v, name, address, BM1690_TENSOR, given)
                    : finish_far(command, v, name, address, 0, given);
}
