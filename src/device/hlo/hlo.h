// hlo.h - a segment as one StableHLO module: what kernels/ is to devices with kernels, to devices that
// compile whole graphs.
//
//     calls of a segment ─▶ hlo_module.c: arguments, values, results; each call by its row of hlo_rows.def
//                        ─▶ hlo_words.c:  numbers, all of which are in one argument
//                        ─▶ hlo_view.c:   views as slices, reshapes, transposes of the dense array below them
//                        ─▶ render/stablehlo/stablehlo.c: elementwise ops, from their tile expressions
//
// Elementwise ops have no rows here: their spelling is the renderer's. An op without a row is composed of
// others by its column `composed`, and one without that is no op of such devices. Whether a call can be
// rendered is found out by doing it.

#ifndef HLO_H
#define HLO_H

#include "device/device.h"
#include "op/ops.h"

enum {
    HLO_RANK = 40,
    HLO_AXES = 12,
    HLO_OPERANDS = 16
}; // axes of tensors, of arrays; inputs and outputs of a row

// A value of the module that is being written. An axis may be bounded: of its elements only the first are
// there, as many as a number of the module says, and what lies behind them may be anything. Where that is not
// known to be right, a statement refuses such a value.
struct hlo_tensor {
    int name;
    zl_dtype dtype;
    int ndim;
    int64_t dim[HLO_RANK];
    // the number, an i32, of elements along a bounded axis: its name and 1; 0: all are there
    int real[HLO_RANK];
};

// An array that lies in an argument: input `input` of call `call` of the segment.
struct hlo_source {
    int argument, call, input;
    int uses;      // by calls of the segment
    bool is_shown; // by a view that is read after the segment
};

// What a run gives to the module: the unit's buffer of this form of the storage of its sources. It may be
// donated: then its memory becomes that of a result.
struct hlo_argument {
    int name, first, sources; // of the list of sources
    int result;               // whose memory it may become; -1: none
    struct buffer_form *form;
};

// A number among the arguments, which all are in one list of words.
struct hlo_scalar {
    int call, input, word;
    zl_dtype dtype;
};

// What the module gives: an output of a call, as a buffer of this form.
struct hlo_result {
    int call, output;
    struct buffer_form *form;
};

// Where a slice of an argument begins along an axis, which follows from where the view begins that input
// `input` of call `call` is: (offset + add) % above / unit.
struct hlo_place {
    int call, input, word; // word: -1: all of the axis is taken, and it is 0
    zl_dtype dtype;
    int64_t add, above, unit, most; // most: what it may be at the end of the axis
};

// Numbers that say where or how much, such as the starts of slices, are words of the list as well: their
// values are in `word` from the beginning. So programs that differ in nothing else have the same text.
struct hlo_program {
    char *text; // with its end
    int bytes;
    int arguments, sources, scalars, results, words;
    struct hlo_argument *argument;
    struct hlo_source *source; // by argument
    struct hlo_scalar *scalar;
    struct hlo_result *result;
    uint32_t *word;
    int places;
    struct hlo_place *place;
    bool is_placed; // other things that it is for depend on where its inputs begin
    int gathers; // views that only a gather could make
};

// hlo_module.c ----------------------------------------------------------------------------------------------

// Whether calls like this can be rendered. No error.
bool hlo_can(const struct call *c);
// What is known of the compiler that gets the text.
struct hlo_target {
    // rows and columns of a product: one of them takes longer than with zeros beside it; 0: it does not
    int least_lines;
};
// What is known of a TPU by its name ("TPU v6 lite") or topology ("v6e:1x1"); NULL: nothing.
const struct hlo_target *hlo_target_of(const char *chip);
// Renders those calls for which skip (or NULL: none) has 0, whose inputs are there. Arguments that may be
// donated now, or could in `before` (or NULL), can be donated. target: NULL: nothing is known of it. NULL and
// an error.
struct hlo_program *hlo_render(const struct device *d, int unit, const struct segment *s, const uint8_t *skip,
                               const struct hlo_program *before, const struct hlo_target *target);
// The same before its inputs are there, as they are expected to be, for its text alone. NULL without an
// error: nothing is known of them.
struct hlo_program *hlo_foresee(const struct device *d, int unit, const struct segment *s,
                                const struct hlo_target *target);
void hlo_free(struct hlo_program *p);
// Whether the program is right for calls like those it was rendered for whose inputs begin elsewhere; and
// puts the places of these into a copy of its words.
bool hlo_fits(const struct hlo_program *p, struct call *const *call);
void hlo_put_places(const struct hlo_program *p, struct call *const *call, uint32_t *word);

// hlo_donate.c ----------------------------------------------------------------------------------------------

static inline zl_array hlo_source_array(const struct hlo_source *s, struct call *const *call) {
    return call[s->call]->in[s->input];
}
// Counts who reads the sources, of a segment of which these calls are stored. False: memory is out.
bool hlo_count_uses(struct hlo_program *p, const struct segment *s, const uint8_t *stored);
// Whether the sources of each argument lie in one storage, as they did when the program was rendered.
bool hlo_is_bound(const struct hlo_program *p, struct call *const *call);
// Whether nothing but the calls of the segment reads argument number i: its buffer may go when they run.
bool hlo_may_donate(const struct hlo_program *p, int i, struct call *const *call);
// Pairs arguments that may be donated with results of the same form.
void hlo_pair(struct hlo_program *p, struct call *const *call, const struct hlo_program *before);
// Whether rendering the program again would find an argument to donate that it keeps as it is.
bool hlo_could_donate(const struct hlo_program *p, struct call *const *call);

struct hlo_module;

// hlo_words.c -----------------------------------------------------------------------------------------------

// Numbers of a module that is being written: each is one or two words of the last argument, which its head
// takes apart.
struct hlo_words {
    struct hlo_word_use {
        int name, word;
        zl_dtype dtype;
    } *use;
    int uses, use_cap, words, word_cap;
    uint32_t *word;
    bool is_open; // false: the module is only tried, and numbers are constants
};
struct hlo_words *hlo_words(struct hlo_module *m);
// hlo_module.c: how a start follows from where the view begins that is being made; and that something else
// does, which nothing tells.
void hlo_note_place(struct hlo_module *m, struct hlo_place place);
void hlo_is_placed(struct hlo_module *m);
// A number whose value is put into the words when the program runs. Returns its first word, or -1: memory is
// out.
int hlo_word_later(struct hlo_module *m, zl_dtype dtype, struct hlo_tensor *out);
// appends the statements that make the numbers of a list
void hlo_words_head(struct hlo_module *m, struct hlo_tensor list);

// A row: the outputs of a call from its inputs. False and an error.
typedef bool hlo_row(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                     struct hlo_tensor *out);

// hlo_emit.c ------------------------------------------------------------------------------------------------

// What the rows write. All that they return is a new value; after an error they go on, and the module fails
// at its end.
struct hlo_writer {
    struct text body;
    int names;
    bool failed;
    int gathers;
    int bounded_ok; // statements that are written know about bounded axes
    struct hlo_target target;
};
struct hlo_writer *hlo_writer(struct hlo_module *m);
uint64_t hlo_varies(struct hlo_module *m, zl_array x); // hlo_module.c: axes whose sizes vary, by bit

// Appends one statement that makes a value of the type of out, and names it. %v is a value and %t its type
// (const struct hlo_tensor *), %e the type of its elements, %l a list (int, const int64_t *), %d an int, %s a
// text.
void hlo_emit(struct hlo_module *m, struct hlo_tensor *out, const char *format, ...);
void hlo_add(struct hlo_module *m, const char *format, ...); // the same as text alone

struct hlo_tensor hlo_type(zl_dtype dtype, int ndim, const int64_t *dim); // a value to be
struct hlo_tensor hlo_like(zl_array x); // the same of an array's dtype and shape
int64_t hlo_size(const struct hlo_tensor *x);

bool hlo_is_bounded(const struct hlo_tensor *x);
// x with a value, without axes, instead of what lies behind the elements of a bounded axis.
struct hlo_tensor hlo_fill_axis(struct hlo_module *m, struct hlo_tensor x, int axis, struct hlo_tensor value);

struct hlo_tensor hlo_reshape(struct hlo_module *m, struct hlo_tensor x, int ndim, const int64_t *dim);
struct hlo_tensor hlo_transpose(struct hlo_module *m, struct hlo_tensor x, const int64_t *axis);
struct hlo_tensor hlo_move_axis(struct hlo_module *m, struct hlo_tensor x, int from, int to);
struct hlo_tensor hlo_slice(struct hlo_module *m, struct hlo_tensor x, const int64_t *start,
                            const int64_t *stop, const int64_t *step);
struct hlo_tensor hlo_cut(struct hlo_module *m, struct hlo_tensor x, int axis, int64_t start,
                          int64_t stop); // of one axis
struct hlo_tensor hlo_reverse(struct hlo_module *m, struct hlo_tensor x, int axes, const int64_t *axis);
struct hlo_tensor hlo_join(struct hlo_module *m, int count, const struct hlo_tensor *x,
                           int axis); // one after the other
// Axis i of x is axis[i] of the result, the same or stretched.
struct hlo_tensor hlo_stretch(struct hlo_module *m, struct hlo_tensor x, const int64_t *axis, int ndim,
                              const int64_t *dim);
struct hlo_tensor hlo_fit(struct hlo_module *m, struct hlo_tensor x, int ndim,
                          const int64_t *dim); // as arrays broadcast
struct hlo_tensor hlo_pad(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor value,
                          const int64_t *low, const int64_t *high, const int64_t *between);
struct hlo_tensor hlo_iota(struct hlo_module *m, zl_dtype dtype, int ndim, const int64_t *dim, int axis);
struct hlo_tensor hlo_number(struct hlo_module *m, zl_dtype dtype, double value); // a constant without axes
struct hlo_tensor hlo_bits(struct hlo_module *m, zl_dtype dtype, uint64_t bits);
struct hlo_tensor hlo_same(struct hlo_module *m, zl_dtype dtype, double value, int ndim, const int64_t *dim);
// hlo_words.c: the same as hlo_bits, but as an argument of the program, whose text does not have the value.
struct hlo_tensor hlo_word(struct hlo_module *m, zl_dtype dtype, uint64_t bits);

// Of each axis as many elements as `size` has, from a place that is a number of one dtype for all axes; and x
// with them replaced by u.
struct hlo_tensor hlo_slice_at(struct hlo_module *m, struct hlo_tensor x, const struct hlo_tensor *start,
                               const int64_t *size);
struct hlo_tensor hlo_update_at(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor u,
                                const struct hlo_tensor *start);
// Places along the axes of x as arguments of the program; axes of which all is taken begin at a constant.
void hlo_starts(struct hlo_module *m, struct hlo_tensor x, const int64_t *place, const int64_t *size,
                struct hlo_tensor *start);

// Elementwise, by the tile expressions of rows and casts: operands broadcast to the shape of the first that
// is largest.
struct hlo_tensor hlo_cast(struct hlo_module *m, struct hlo_tensor x, zl_dtype dtype);
struct hlo_tensor hlo_apply(struct hlo_module *m, enum tile_op op, int count, const struct hlo_tensor *x);
struct hlo_tensor hlo_unary(struct hlo_module *m, enum tile_op op, struct hlo_tensor x);
struct hlo_tensor hlo_binary(struct hlo_module *m, enum tile_op op, struct hlo_tensor a, struct hlo_tensor b);
struct hlo_tensor hlo_choose(struct hlo_module *m, struct hlo_tensor truth, struct hlo_tensor a,
                             struct hlo_tensor b);
struct hlo_tensor hlo_reinterpret(struct hlo_module *m, struct hlo_tensor x,
                                  zl_dtype dtype); // the same bits, of the same size

// Reduces axes, which go, by a row's op; what no elements give is the op's identity. Sums of 16-bit floats
// are of f32.
struct hlo_tensor hlo_reduce(struct hlo_module *m, enum tile_op op, struct hlo_tensor x, int axes,
                             const int64_t *axis);
// A region of one block that combines two scalars: "({ ... })".
void hlo_combiner(struct hlo_module *m, enum tile_op op, zl_dtype dtype);

// The product of matrices with the same batch axes, hlo_product.c; and positions along an axis of so many
// elements as signed integers, counted from its beginning, hlo_index.c.
struct hlo_tensor hlo_multiply(struct hlo_module *m, struct hlo_tensor a, struct hlo_tensor b,
                               zl_dtype dtype);
struct hlo_tensor hlo_positions(struct hlo_module *m, struct hlo_tensor x, int64_t size);
// The matrices of a list, (N, rows, columns), that an array of indices names: as many as it has, one after
// the other.
struct hlo_tensor hlo_pick(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor index);

void *hlo_refuse(struct hlo_module *m, const char *format, ...)
    __attribute__((format(printf, 2, 3))); // the module fails with an error

// hlo_view.c ------------------------------------------------------------------------------------------------

// The elements of a view of base, which is dense: of this dtype and these sizes, strides and offset in
// elements of it.
struct hlo_tensor hlo_view(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype, int ndim,
                           const int64_t *dim, const int64_t *stride, int64_t offset);
// The same, where the sizes of some axes (bits of `varies`) are different from run to run: those that are the
// first part of an axis of the base are bounded.
struct hlo_tensor hlo_view_bounded(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype, int ndim,
                                   const int64_t *dim, const int64_t *stride, int64_t offset,
                                   uint64_t varies);

// hlo_sizes.c -----------------------------------------------------------------------------------------------

// Which sizes of a segment have been different in segments that were equal otherwise: kept for as long as the
// process lives.
struct hlo_sizes {
    struct map place; // of arrays: where their sizes are in the list, from 1
    uint8_t *varied;  // NULL: they have taken fewer than three values
};
bool hlo_sizes_open(struct hlo_sizes *sizes, const struct segment *s); // false: memory is out
uint64_t hlo_sizes_of(const struct hlo_sizes *sizes, zl_array x);      // axes that vary, by bit
void hlo_sizes_close(struct hlo_sizes *sizes);
int64_t hlo_step(int64_t size); // the size of the next step

// Rows ------------------------------------------------------------------------------------------------------

#define ROW(name, function) hlo_row function;
#include "device/hlo/hlo_rows.def"

#endif
