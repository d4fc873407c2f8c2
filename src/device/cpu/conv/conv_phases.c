// conv_phases.c - convolutions of a dilated input, which has gaps between its elements, such as the gradients
// of strided convolutions.
//
// Elements of the output that are input_dilation apart are a phase: they use the same taps, on consecutive
// elements of x. So a phase is a convolution of x without gaps, by some of the taps, and zeros are never
// multiplied.

#include "device/cpu/conv/conv.h"
#include "device/cpu/rows/operands.h"

// Restricts v and w along axis i to one of its input_dilation phases: the one that begins with element
// `phase` of the output, which uses every `apart`-th tap. Returns false if it uses none.
static bool set_phase(struct convolution *v, struct conv_kernel *w, int i, int64_t phase) {
    struct conv_axis *a = &v->axis[i];
    const int64_t gap = a->input_dilation, taps = v->kernel[i], at = i - (CONV_AXES - (w->ndim - 2)) + 1;
    int64_t first = 0, apart = 1;
    v->out[i] = (v->out[i] - phase + gap - 1) / gap;
    while (first < taps && (phase + first * a->dilation - a->low) % gap)
        first++;
    while (apart * a->dilation % gap)
        apart++;
    if (first == taps)
        return false;
    v->kernel[i] = (taps - 1 - first) / apart + 1;
    int64_t from = v->flip ? taps - 1 - first - (v->kernel[i] - 1) * apart : first;
    w->data += from * w->stride[at] * v->item;
    w->size = w->size / taps * v->kernel[i];
    w->dim[at] = v->kernel[i];
    w->stride[at] *= apart;
    *a = (struct conv_axis){.stride = 1,
                            .low = -(phase + first * a->dilation - a->low) / gap,
                            .dilation = apart * a->dilation / gap,
                            .input_dilation = 1};
    return true;
}

// Copies the elements of a phase to their positions in the output of v. They are 0 if `from` is NULL.
static void spread(const struct convolution *v, const struct convolution *part, const int64_t *phase,
                   const char *from) {
    static const uint64_t nothing[2];
    int64_t dim[CONV_AXES + 2], to[CONV_AXES + 2], dense[CONV_AXES + 2], none[CONV_AXES + 2] = {0};
    char *y = v->y;
    dim[CONV_AXES + 1] = v->groups * v->outputs;
    to[CONV_AXES + 1] = 1;
    for (int64_t i = CONV_AXES - 1, step = dim[CONV_AXES + 1]; i >= 0; step *= v->out[i], i--) {
        int64_t gap = v->axis[i].input_dilation;
        dim[i + 1] = part->out[i];
        to[i + 1] = step * gap;
        to[0] = step * v->out[i];
        y += phase[i] * step * v->item;
    }
    dim[0] = v->batch;
    shape_row_major(CONV_AXES + 2, dim, dense);
    cpu_copy((size_t)v->item, CONV_AXES + 2, dim, y, to, from ? (const void *)from : nothing,
             from ? dense : none);
}

bool conv_has_phases(const struct convolution *v) {
    bool has = false;
    for (int i = 0; i < CONV_AXES; i++) {
        const struct conv_axis *a = &v->axis[i];
        if (a->input_dilation > 1 && a->stride > 1)
            return false;
        has |= a->input_dilation > 1;
    }
    return has;
}

bool conv_phases(const struct convolution *v, const struct conv_kernel *w) {
    int64_t phases = 1, most = v->batch;
    struct conv_buffer buffer = {0};
    for (int i = 0; i < CONV_AXES; i++) {
        int64_t gap = v->axis[i].input_dilation;
        phases *= MIN_OF(gap, v->out[i]);
        most *= (v->out[i] + gap - 1) / gap;
    }
    char *y = conv_open_buffer(&buffer, most * v->groups * v->outputs * v->item);
    bool ok = y;
    for (int64_t p = 0; ok && p < phases; p++) {
        struct convolution part = *v;
        struct conv_kernel taps = *w;
        int64_t phase[CONV_AXES], rest = p;
        bool meets = true;
        part.taps = 1, part.rows = v->batch, part.y = y;
        for (int i = CONV_AXES - 1; i >= 0; i--) {
            int64_t gap = v->axis[i].input_dilation, count = MIN_OF(gap, v->out[i]);
            phase[i] = rest % count;
            rest /= count;
            meets &= gap == 1 || set_phase(&part, &taps, i, phase[i]);
            part.taps *= part.kernel[i];
            part.rows *= part.out[i];
        }
        ok = !meets || conv_run(&part, &taps);
        if (ok)
            spread(v, &part, phase, meets ? y : NULL);
    }
    conv_close_buffer(&buffer);
    return ok;
}
