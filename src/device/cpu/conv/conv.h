// conv.h - a convolution on the CPU, and the algorithms that compute it. A row is one position of the output
// with all its channels; a line is the positions along the last axis of the convolution.

#ifndef CONV_H
#define CONV_H

#include "device/cpu/gemm/gemm.h"
#include "op/ops.h"

// A convolution over three axes, of which the first may have one element.
struct convolution {
    int64_t in[CONV_AXES], kernel[CONV_AXES], out[CONV_AXES]; // sizes
    struct conv_axis axis[CONV_AXES];
    bool flip;
    const char *x, *w;
    char *y;
    int64_t batch_step, step[CONV_AXES]; // bytes between elements of x
    int64_t group_step;                  // bytes between groups of x
    int64_t w_group, w_row, w_col;       // elements between groups, taps and outputs of w
    zl_dtype dtype;
    int64_t item;
    int64_t batch;
    int64_t groups, channels, outputs; // groups; channels and outputs per group
    int64_t taps, rows;                // taps of the kernel, and rows of the output
    bool in_batch;                     // the groups of x are in its batch axis
    bool is_dense;                     // x is contiguous
    bool is_product;                   // patches are the rows of x: the convolution is a matrix product
    int64_t tile_rows, row_tiles, tile_cols, col_tiles;
    // Used by conv_panels.c, conv_amx.c and conv_positions.c.
    const struct gemm_kernel *kernels;
    char *packed;  // w, packed
    int64_t chunk; // elements along taps and channels that are multiplied at once
    atomic_bool failed;
};

// An array with any strides: w, some taps of it, or x (conv_taps.c).
struct conv_kernel {
    const char *data;
    int ndim;
    int64_t dim[CONV_AXES + 2], stride[CONV_AXES + 2], size;
};
// Temporary memory of a convolution. It comes from the allocator of arrays, which keeps it for the next
// convolution, because fresh pages cost as much as a copy.
struct conv_buffer {
    void *data;
    size_t bytes;
};
// Allocates so many bytes, which conv_close_buffer() frees. Returns NULL and an error if it cannot.
void *conv_open_buffer(struct conv_buffer *buffer, int64_t bytes);
// Frees the memory, if there is any. A buffer that was never opened must be all zeros.
void conv_close_buffer(struct conv_buffer *buffer);

// Computes the convolution by the algorithm that suits it. Returns false, with an error, if memory runs out.
bool conv_run(struct convolution *v, const struct conv_kernel *w);

// Returns the position in x, along axis i, that element k of the kernel is multiplied with for element o of
// the output; -1 if it is outside of x or between elements of a dilated x.
static inline int64_t place(const struct convolution *v, int i, int64_t o, int64_t k) {
    const struct conv_axis *a = &v->axis[i];
    int64_t tap = v->flip ? v->kernel[i] - 1 - k : k, at = o * a->stride + tap * a->dilation - a->low;
    if (at < 0)
        return -1;
    if (a->input_dilation > 1) {
        if (at % a->input_dilation)
            return -1;
        at /= a->input_dilation;
    }
    return at < v->in[i] ? at : -1;
}

// The position of a row of the output: its batch element, and its index along each axis.
struct position {
    int64_t batch, at[CONV_AXES];
};

// Returns the position of a row of the output.
static inline struct position position_of(const struct convolution *v, int64_t row) {
    struct position s;
    for (int i = CONV_AXES - 1; i >= 0; row /= v->out[i], i--)
        s.at[i] = row % v->out[i];
    s.batch = row;
    return s;
}

// Moves to the next row.
static inline void conv_next_position(const struct convolution *v, struct position *s) {
    for (int i = CONV_AXES - 1; i >= 0; i--) {
        if (++s->at[i] < v->out[i])
            return;
        s->at[i] = 0;
    }
    s->batch++;
}

// Each of the following files computes convolutions by one algorithm. Functions that pack w allocate a
// buffer, which the caller closes, and return false, with an error, if memory runs out. Functions with `from`
// and `to` compute parts, or rows, on this thread, as cpu_split() calls them, and set v->failed if memory
// runs out.

// conv_phases.c: for a dilated x. Each phase of the output is a convolution without gaps.

// Returns whether x is dilated along an axis, and no dilated axis has a stride.
bool conv_has_phases(const struct convolution *v);
// Computes the convolution phase by phase. Returns false, with an error, if memory runs out.
bool conv_phases(const struct convolution *v, const struct conv_kernel *w);

// conv_panels.c: for channels that fill the units of a micro-kernel.

// Returns whether this algorithm is suitable, and sets v->kernels.
bool    conv_has_panels(struct convolution *v);
// Packs w for conv_panels().
bool    conv_pack_kernels(struct convolution *v, struct conv_buffer *buffer);
// Returns the number of parts, and sets the sizes of tiles.
int64_t conv_panel_parts(struct convolution *v);
// Computes parts from..to - 1.
void    conv_panels(const void *convolution, int64_t from, int64_t to);

// conv_window.c: a copy of the lines of x that some lines of the output depend on, contiguous and padded with
// zeros.
struct conv_window {
    const struct convolution *v;
    int64_t group, batch, first, second, lines; // position along two axes of the output; number of lines
    // bytes per element; positions per line; bytes from one position, one line and one index of the first
    // axis to the next
    int64_t item, width, position, line, plane;
    row_fn *widen;                              // converts elements of x; NULL: they are copied
    char *x;
    int64_t filled; // the number of the window in x; -1: none
    int64_t *tap; // bytes from the first element that a position depends on to that of each tap
};
// Returns whether windows are suitable: x is not dilated, and the convolution is not a mere matrix product.
bool    conv_has_windows(const struct convolution *v);
// Returns the number of parts, and sets the sizes of tiles. A part is a window and some of the `panels`
// panels of outputs. item: bytes per element of a window.
int64_t conv_window_parts(struct convolution *v, int64_t item, int64_t panels);
// Opens w as a window of elements of a dtype, in this thread's scratch memory. So many positions can be read
// after the last line. Returns false, with an error, if memory runs out.
bool    conv_window_open(struct conv_window *w, const struct convolution *v, int64_t positions,
                         zl_dtype dtype);
// Fills the window of a part, unless it is filled already, and sets the part's panels: *first to *end - 1.
void    conv_window_fill(struct conv_window *w, int64_t part, int64_t panels, int64_t *first, int64_t *end);
// Returns the row of the output at a position along the last axis, in one of the window's lines.
static inline int64_t conv_window_row(const struct conv_window *w, int64_t line, int64_t position) {
    const struct convolution *v = w->v;
    return ((w->batch * v->out[0] + w->first) * v->out[1] + w->second + line) * v->out[2] + position;
}

// conv_amx.c: for bf16, on CPUs with AMX.

// Returns whether this algorithm is suitable.
bool    conv_has_tiles(const struct convolution *v);
// Packs w for conv_tiles().
bool    conv_pack_tiles(struct convolution *v, struct conv_buffer *buffer);
// Returns the number of parts, and sets the sizes of tiles.
int64_t conv_tile_parts(struct convolution *v);
// Computes parts from..to - 1.
void    conv_tiles(const void *convolution, int64_t from, int64_t to);

// conv_positions.c: for vectors of outputs, on x86_64 with AVX2.

// Returns whether this algorithm is suitable.
bool    conv_has_positions(const struct convolution *v);
// Packs w for conv_positions().
bool    conv_pack_positions(struct convolution *v, struct conv_buffer *buffer);
// Returns the number of parts, and sets the sizes of tiles.
int64_t conv_position_parts(struct convolution *v);
// Computes parts from..to - 1.
void    conv_positions(const void *convolution, int64_t from, int64_t to);

// conv_channels.c: for depthwise convolutions, in which each group has one channel and one output. w is
// (taps, channels), in the dtype of sums.

// Computes rows from..to - 1 of the output.
void conv_channels(const void *convolution, int64_t from, int64_t to);

// conv_taps.c: for depthwise convolutions whose kernel is larger than the output, and whose groups are in the
// batch axis.

// Returns whether this algorithm is suitable.
bool conv_has_taps(const struct convolution *v);
// Computes the convolution. Returns false, with an error, if memory runs out.
bool conv_taps(const struct convolution *v, const struct conv_kernel *x, const struct conv_kernel *w);

// conv_lines.c: for one channel and one output. w is a copy in the dtype of sums.

// Returns whether this algorithm is suitable.
bool    conv_has_lines(const struct convolution *v);
// Puts w in the order in which x is read: reverses the last axis of a flipped kernel.
void    conv_reverse_lines(const struct convolution *v, void *w);
// Returns the number of parts.
int64_t conv_line_parts(const struct convolution *v);
// Computes parts from..to - 1.
void    conv_lines(const void *convolution, int64_t from, int64_t to);

#endif
