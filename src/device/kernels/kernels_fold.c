// kernels_fold.c - images summed from patches, by src/kernel/fold.tile.

#include "device/kernels/kernels.h"
#include "op/ops.h"

// Returns how many channels a thread reads at once: as many as 16 bytes hold, if channels and strides are
// multiples of that, else 1.
static int unit_of(const struct kernel_place *p, const struct fold *f, zl_array x) {
    int width = (int)(16 / array_item(x));
    bool fits = f->channels % width == 0 && f->batch_stride % width == 0 &&
                kernel_begins_run(&(struct kernel_end){kernel_reach(p, x), x->offset}, width);
    for (int i = 0; i < FOLD_AXES; i++)
        fits = fits && f->axis[i].out_stride % width == 0 && f->axis[i].tap_stride % width == 0;
    return fits ? width : 1;
}

bool kernel_fold(const struct kernel_place *p, const struct call *c) {
    enum { OUTS, LOW, REACH, OUT, TAP, ROWS, MOST = 4 };
    zl_array x = c->in[0], y = call_first(c);
    struct fold f = op_fold_read(c);
    int unit = unit_of(p, &f, x), pack = unit > 1 ? unit : (int)MIN_OF(f.channels, MOST);
    int64_t packs = (f.channels + pack - 1) / pack, table[ROWS][FOLD_AXES];
    bool dilated = false;
    struct kernel_work w;
    work_open(&w, p, "fold");
    WORK_SIZES(&w, y->size / f.channels * packs, packs, f.channels);
    WORK_SIZES(&w, f.axis[0].size, f.axis[1].size, f.axis[2].size);
    WORK_SIZES(&w, f.axis[0].step, f.axis[1].step, f.axis[2].step);
    WORK_SIZES(&w, f.axis[0].apart, f.axis[1].apart, f.axis[2].apart);
    WORK_SIZES(&w, f.batch_stride / unit, kernel_elements(x) / unit, x->offset / unit, y->size / unit);
    for (int i = 0; i < FOLD_AXES; i++) {
        const struct fold_axis *a = &f.axis[i];
        table[OUTS][i] = a->outs;
        table[LOW][i] = -a->start;
        table[REACH][i] = (a->taps - 1) * a->apart;
        table[OUT][i] = a->out_stride / unit;
        table[TAP][i] = a->tap_stride / unit;
        dilated |= a->taps > 1 && a->apart > 1;
    }
    work_place(&w, x);
    work_rows(&w, ROWS, FOLD_AXES, table[0], FOLD_AXES);
    work_result(&w, y);
    zl_dtype wide = array_item(x) == 2 ? ZL_FLOAT32 : (zl_dtype)x->dtype;
    return WORK_FILE(&w, "fold", "ITEM=%t,WIDE=%t,UNIT=%d,PACK=%d,DILATED=%d,%i,COUNT=u%b", x->dtype, wide,
                     unit, pack, dilated);
}
