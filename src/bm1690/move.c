// move.c - commands that move elements without changing them: copies, transposes, fills, sequences; by DMA
// and by the TIU.

#include "bm1690/element.h"

run_function run_reverse, run_copy, run_fill, run_transpose, run_reshape, run_matrix_copy, run_sequence;

static void copy_elements(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step, int count,
                          int size) {
    switch (size) {
    case 1:
        for (int i = 0; i < count; i++)
            to[i * to_step] = from[i * from_step];
        break;
    case 2:
        for (int i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 2);
        break;
    default:
        for (int i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 4);
    }
}

// Copies one row. Source and destination may be the same memory, so a row that is contiguous on both sides is
// copied by memmove.
static void copy_row(const struct view *to, uint8_t *y, const struct view *from, const uint8_t *x) {
    if (to->stride[3] == 1 && from->stride[3] == 1)
        memmove(y, x, (size_t)to->dim.w * (size_t)to->size);
    else
        copy_elements(y, to->stride[3] * to->size, x, from->stride[3] * from->size, to->dim.w, to->size);
}

struct copy {
    const struct view *to, *from;
};

static bool rows_are_contiguous(const struct view *v) {
    return v->stride[3] == 1 && v->stride[2] == v->dim.w;
}

static void copy_channel(void *context, int part) {
    const struct copy *k = context;
    const struct view *to = k->to, *from = k->from;
    int n = part / to->dim.c, c = part % to->dim.c, other = from->dim.c == 1 ? 0 : c;
    if (rows_are_contiguous(to) && rows_are_contiguous(from)) {
        memmove(view_row(to, n, c, 0), view_row(from, n, other, 0),
                (size_t)to->dim.h * (size_t)to->dim.w * (size_t)to->size);
        return;
    }
    for (int h = 0; h < to->dim.h; h++)
        copy_row(to, view_row(to, n, c, h), from, view_row(from, n, other, h));
}

// Copies a tensor. A source of one channel is broadcast to all channels; the TIU broadcasts only to channels
// that fit the lanes from the first one on.
bool run_copy(struct command *command) {
    struct copy k = {command_operand(command, 0), command_operand(command, 1)};
    bool spreads = command->operation == ANY_LANE && k.from->dim.c == 1;
    if (spreads && k.to->lane + k.to->dim.c > BM1690_LANE_COUNT)
        return command_refuse(command, "shape", "has %d channels from lane %d on; they are to end at lane %d",
                              k.to->dim.c, k.to->lane, BM1690_LANE_COUNT);
    if (!command->core->counts_only)
        chip_spread(k.to, copy_channel, &k);
    return true;
}

bool run_fill(struct command *command) {
    const struct view *to = command_operand(command, 0);
    uint32_t word = command_value(command, "C")->word;
    if (command->core->counts_only)
        return true;
    for (int n = 0; n < to->dim.n; n++)
        for (int c = 0; c < to->dim.c; c++)
            for (int h = 0; h < to->dim.h; h++)
                copy_elements(view_row(to, n, c, h), to->stride[3] * to->size, (const uint8_t *)&word, 0,
                              to->dim.w, to->size);
    return true;
}

static bool check_transpose_lanes(struct command *command) {
    int place = command->operation == TRANSPOSE_CW_TIU ? 1 : 0;
    const struct view *v = command_operand(command, place);
    bool is_tiu = command->operation == TRANSPOSE_CW_TIU || command->operation == TRANSPOSE_WC_TIU;
    return !is_tiu || v->lane == 0 ||
           command_refuse(command, command->row->parameter[command->operand[place]].name,
                          "begins in lane %d; it is to begin in lane 0", v->lane);
}

bool run_transpose(struct command *command) {
    const struct view *to = command_operand(command, 0), *from = command_operand(command, 1);
    bool exchanges = command->operation == TRANSPOSE_NC;
    if (!check_transpose_lanes(command))
        return false;
    for (int n = 0; !command->core->counts_only && n < to->dim.n; n++)
        for (int c = 0; c < to->dim.c; c++)
            for (int h = 0; h < to->dim.h; h++) {
                uint8_t *y = view_row(to, n, c, h);
                if (exchanges) {
                    copy_row(to, y, from, view_row(from, c, n, h));
                    continue;
                }
                for (int w = 0; w < to->dim.w; w++)
                    memcpy(y + w * to->stride[3] * to->size,
                           view_row(from, n, w, h) + c * from->stride[3] * from->size, (size_t)to->size);
            }
    return true;
}

static uint8_t *element_at(const struct view *v, int64_t index) {
    int w = (int)(index % v->dim.w), h = (int)(index / v->dim.w % v->dim.h),
        c = (int)(index / v->dim.w / v->dim.h % v->dim.c), n = (int)(index / v->dim.w / v->dim.h / v->dim.c);
    return view_row(v, n, c, h) + w * v->stride[3] * v->size;
}

static int64_t elements_of(const struct view *v) {
    return (int64_t)v->dim.n * v->dim.c * v->dim.h * v->dim.w;
}

bool run_reshape(struct command *command) {
    const struct view *to = command_operand(command, 0), *from = command_operand(command, 1);
    if (elements_of(to) != elements_of(from))
        return command_refuse(command, "dst_shape",
                              "has %lld elements, src_shape %lld; they are to have the same",
                              (long long)elements_of(to), (long long)elements_of(from));
    for (int64_t i = 0; !command->core->counts_only && i < elements_of(to); i++)
        memcpy(element_at(to, i), element_at(from, i), (size_t)to->size);
    return true;
}

// Copies between rows of device memory and {rows, channels, 1, columns per channel}; the last channel may
// have fewer columns.
bool run_matrix_copy(struct command *command) {
    struct view *to = command_operand(command, 0), *from = command_operand(command, 1),
                *local = to->is_local ? to : from, *far = to->is_local ? from : to;
    int columns = far->dim.w, per = local->dim.w;
    for (int row = 0; !command->core->counts_only && row < local->dim.n; row++)
        for (int c = 0; c < local->dim.c; c++) {
            uint8_t *near = view_row(local, row, c, 0),
                    *line = view_row(far, 0, 0, row) + (size_t)c * (size_t)per * (size_t)far->size;
            size_t bytes = (size_t)MIN_OF(per, columns - c * per) * (size_t)far->size;
            memcpy(to->is_local ? near : line, to->is_local ? line : near, bytes);
        }
    return true;
}

// Reverses a tensor. Device memory and L2 can be reversed along any axis, local memory along its channels
// only.
bool run_reverse(struct command *command) {
    const struct view *to = command_operand(command, 0), *from = command_operand(command, 1);
    int axis = (int)command_value(command, "reverse_axis")->i;
    struct dims d = to->dim;
    if (from->is_local && axis != 1)
        return command_refuse(command, "reverse_axis", "is %d; local memory is reversed along channels, 1",
                              axis);
    for (int n = 0; !command->core->counts_only && n < d.n; n++)
        for (int c = 0; c < d.c; c++)
            for (int h = 0; h < d.h; h++) {
                const uint8_t *x = view_row(from, axis == 0 ? d.n - 1 - n : n, axis == 1 ? d.c - 1 - c : c,
                                            axis == 2 ? d.h - 1 - h : h);
                int64_t step = from->stride[3] * from->size;
                copy_elements(view_row(to, n, c, h), to->stride[3] * to->size,
                              axis == 3 ? x + (d.w - 1) * step : x, axis == 3 ? -step : step, d.w, to->size);
            }
    return true;
}

// Writes a sequence: along columns, the same in each lane; along lanes; or along both, lane by lane.
bool run_sequence(struct command *command) {
    const struct view *to = command_operand(command, 0);
    int64_t start = command_value(command, "start")->i, step = command_value(command, "step")->i;
    for (int c = 0; !command->core->counts_only && c < to->dim.c; c++)
        for (int w = 0; w < to->dim.w; w++) {
            int64_t place = command->operation == SEQUENCE_BY_LANE  ? c
                            : command->operation == SEQUENCE_BY_ROW ? (int64_t)c * to->dim.w + w
                                                                    : w;
            element_store_int(view_row(to, 0, c, 0) + (size_t)w * (size_t)to->size, to->dtype,
                              start + place * step);
        }
    return true;
}
