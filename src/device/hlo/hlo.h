// hlo.h - renders a segment as one StableHLO module, for devices that compile whole graphs; kernels/ does the
// same for devices that run kernels.
//
//     calls of a segment ─▶ hlo_module.c: arguments, values, results; each call by its row of hlo_rows.def
//                        ─▶ hlo_words.c:  numbers, all of which are in one argument
//                        ─▶ hlo_view.c:   views as slices, reshapes, transposes of the dense array below them
//                        ─▶ render/stablehlo/stablehlo.c: elementwise ops, from their tile expressions
//
// Elementwise ops need no rows here: the renderer spells them. An op without a row is composed of others by
// its column `composed`; without that, such devices do not have it. Whether a call can be rendered is found
// out by rendering it.

#ifndef HLO_H
#define HLO_H

#include "device/device.h"
#include "op/ops.h"

enum {
    HLO_RANK = 40,
    HLO_AXES = 12,
    HLO_OPERANDS = 16
}; // the most axes of tensors and of arrays; the most inputs and outputs of a row

// A value of the module that is being written. An axis may be bounded: only its first elements exist, as many
// as a number of the module says, and the memory after them has any contents. A statement refuses such a
// value where that is not known to be right.
struct hlo_tensor {
    int name;
    zl_dtype dtype;
    int ndim;
    int64_t dim[HLO_RANK];
    // for a bounded axis, the name of the number (i32) of its elements, plus 1; 0: the axis is not bounded
    int real[HLO_RANK];
};

// An array that is in an argument: input `input` of call `call` of the segment.
struct hlo_source {
    int argument, call, input;
    int uses;      // how often calls of the segment read it
    bool is_shown; // a view of it is read after the segment
};

// An argument of the module: the unit's buffer, in this form, of the storage of its sources. It may be
// donated: then its memory becomes that of a result.
struct hlo_argument {
    int name, first, sources; // its sources, in the list of sources
    int result;               // the result that its memory may become, or -1
    struct buffer_form *form;
};

// An inline scalar, which is passed in the list of words.
struct hlo_scalar {
    int call, input, word;
    zl_dtype dtype;
};

// A result of the module: an output of a call, as a buffer of this form.
struct hlo_result {
    int call, output;
    struct buffer_form *form;
};

// The start of a slice of an argument along an axis. It depends on the offset of the view that is input
// `input` of call `call`: (offset + add) % above / unit.
struct hlo_place {
    int call, input, word; // word: -1 if the axis is taken whole, so that the start is 0
    zl_dtype dtype;
    int64_t add, above, unit, most; // most: the largest start for which the slice fits
};

// Numbers that say where or how much, such as the starts of slices, are words of the list as well; `word` has
// their values from the beginning. So programs that differ only in such numbers have the same text.
struct hlo_program {
    char *text; // ends with a 0 byte
    int bytes;
    int arguments, sources, scalars, results, words;
    struct hlo_argument *argument;
    struct hlo_source *source; // sorted by argument
    struct hlo_scalar *scalar;
    struct hlo_result *result;
    uint32_t *word;
    int places;
    struct hlo_place *place;
    bool is_placed; // the text depends on the offsets of inputs in a way that `place` does not describe
    int gathers; // views that had to be rendered as gathers
};

// hlo_module.c ----------------------------------------------------------------------------------------------

// Returns whether calls like this can be rendered, which it tries. Sets no error.
bool hlo_can(const struct call *c);
// Facts about the compiler that gets the text.
struct hlo_target {
    // a product with a single row or column is slower than one padded with zeros to this size; 0: it is not
    int least_lines;
    // an update that is computed from the array it is written to may read elements that it has already
    // overwritten (openxla/xla#49176)
    bool overwrites_early;
};
// Returns what is known of a TPU by its name ("TPU v6 lite") or topology ("v6e:1x1"), or of XLA's compiler
// for CPUs by "cpu", or NULL if that is nothing.
const struct hlo_target *hlo_target_of(const char *chip);
// Renders the calls that `skip` does not mark; NULL: all of them. Their inputs have values. An argument can
// be donated if it may be now, or could be in `before`, which may be NULL. A target of NULL is not known.
// Returns NULL, with an error, if that fails; the caller frees the result with hlo_free.
struct hlo_program *hlo_render(const struct device *d, int unit, const struct segment *s, const uint8_t *skip,
                               const struct hlo_program *before, const struct hlo_target *target);
// Renders all calls before their inputs have values, as these are expected to be, for the text alone. Returns
// NULL, without an error, if that fails or too little is known of them.
struct hlo_program *hlo_foresee(const struct device *d, int unit, const struct segment *s,
                                const struct hlo_target *target);
// Frees a program; NULL is allowed.
void hlo_free(struct hlo_program *p);
// Returns whether the program is right for calls like those it was rendered for, whose inputs may begin
// elsewhere.
bool hlo_fits(const struct hlo_program *p, struct call *const *call);
// Writes where the inputs of such calls begin to a copy of the program's words.
void hlo_put_places(const struct hlo_program *p, struct call *const *call, uint32_t *word);

// hlo_donate.c ----------------------------------------------------------------------------------------------

static inline zl_array hlo_source_array(const struct hlo_source *s, struct call *const *call) {
    return call[s->call]->in[s->input];
}
// Counts the calls of a segment that read each source; `stored` marks the calls whose outputs are kept.
// Returns false, with an error, if memory runs out.
bool hlo_count_uses(struct hlo_program *p, const struct segment *s, const uint8_t *stored);
// Returns whether the sources of each argument lie in one storage, as they did when the program was rendered.
bool hlo_is_bound(const struct hlo_program *p, struct call *const *call);
// Returns whether nothing but the calls of the segment reads argument i, so that it may lose its buffer when
// they run.
bool hlo_may_donate(const struct hlo_program *p, int i, struct call *const *call);
// Assigns results of the same form to the arguments that may be donated, now or in `before`, which may be
// NULL.
void hlo_pair(struct hlo_program *p, struct call *const *call, const struct hlo_program *before);
// Returns whether the program, rendered again, would donate an argument that it keeps as it is.
bool hlo_could_donate(const struct hlo_program *p, struct call *const *call);

struct hlo_module;

// hlo_words.c -----------------------------------------------------------------------------------------------

// The numbers of a module that is being written: each is one or two words of the last argument, which are
// unpacked at the head of the module.
struct hlo_words {
    struct hlo_word_use {
        int name, word;
        zl_dtype dtype;
    } *use;
    int uses, use_cap, words, word_cap;
    uint32_t *word;
    bool is_open; // false: the module is only tried, and numbers are constants
};
// Returns the words of a module.
struct hlo_words *hlo_words(struct hlo_module *m);
// Records how the start of a slice follows from where the view begins that is being made (hlo_module.c).
void hlo_note_place(struct hlo_module *m, struct hlo_place place);
// Records that the module depends on where its inputs begin in a way that no place describes (hlo_module.c).
void hlo_is_placed(struct hlo_module *m);
// Adds a number whose value is put into the words when the program runs, and names it in *out. Returns its
// first word, or -1, and the module fails, if memory runs out.
int hlo_word_later(struct hlo_module *m, zl_dtype dtype, struct hlo_tensor *out);
// Appends the statements that unpack all numbers from the list of words.
void hlo_words_head(struct hlo_module *m, struct hlo_tensor list);

// A row computes the outputs of a call from its inputs, or returns false and an error.
typedef bool hlo_row(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                     struct hlo_tensor *out);

// hlo_emit.c ------------------------------------------------------------------------------------------------

// Functions for the rows to emit statements. They all return a new value; after an error they go on, and the
// module fails at its end.
struct hlo_writer {
    struct text body;
    int names;
    bool failed;
    int gathers;
    int bounded_ok; // above 0: the statements that are being written support bounded axes
    struct hlo_target target;
};
// Returns the writer of a module.
struct hlo_writer *hlo_writer(struct hlo_module *m);
// Returns whether the value of y is computed from that of x, or may be, by the calls of the segment up to the
// one that is being rendered (hlo_module.c).
bool hlo_depends(struct hlo_module *m, zl_array y, zl_array x);
// Returns the axes of an array whose sizes vary from run to run, by bit (hlo_module.c).
uint64_t hlo_varies(struct hlo_module *m, zl_array x);

// Appends one statement that makes a value of the type of out, and names it. %v is a value and %t its type
// (const struct hlo_tensor *), %e the type of its elements, %l a list (int, const int64_t *), %d an int, %s a
// text.
void hlo_emit(struct hlo_module *m, struct hlo_tensor *out, const char *format, ...);
// Appends text by the same format, and names nothing.
void hlo_add(struct hlo_module *m, const char *format, ...);

// Returns a tensor of this dtype and shape that has no value yet.
struct hlo_tensor hlo_type(zl_dtype dtype, int ndim, const int64_t *dim);
// Returns a tensor of an array's dtype and shape that has no value yet.
struct hlo_tensor hlo_like(zl_array x);
// Returns the number of elements; a bounded axis counts with its bound.
int64_t hlo_size(const struct hlo_tensor *x);

// Returns whether any axis is bounded.
bool hlo_is_bounded(const struct hlo_tensor *x);
// Returns x with `value`, which has no axes, in place of what lies past the elements of a bounded axis.
struct hlo_tensor hlo_fill_axis(struct hlo_module *m, struct hlo_tensor x, int axis, struct hlo_tensor value);

// Returns the elements of x, in row-major order, in another shape.
struct hlo_tensor hlo_reshape(struct hlo_module *m, struct hlo_tensor x, int ndim, const int64_t *dim);
// Returns x with its axes in another order: axis i of the result is axis[i] of x.
struct hlo_tensor hlo_transpose(struct hlo_module *m, struct hlo_tensor x, const int64_t *axis);
// Returns x with axis `from` as axis `to`; the other axes keep their order.
struct hlo_tensor hlo_move_axis(struct hlo_module *m, struct hlo_tensor x, int from, int to);
// Returns every step-th element of each axis from `start` to before `stop`.
struct hlo_tensor hlo_slice(struct hlo_module *m, struct hlo_tensor x, const int64_t *start,
                            const int64_t *stop, const int64_t *step);
// Returns the elements of one axis from `start` to before `stop`, and all of the other axes.
struct hlo_tensor hlo_cut(struct hlo_module *m, struct hlo_tensor x, int axis, int64_t start,
                          int64_t stop);
// Returns x with its elements along these axes in reverse order.
struct hlo_tensor hlo_reverse(struct hlo_module *m, struct hlo_tensor x, int axes, const int64_t *axis);
// Returns the concatenation of tensors along an axis.
struct hlo_tensor hlo_join(struct hlo_module *m, int count, const struct hlo_tensor *x,
                           int axis);
// Returns x broadcast to a shape: axis i of x is axis[i] of the result, of the same size or of size 1.
struct hlo_tensor hlo_stretch(struct hlo_module *m, struct hlo_tensor x, const int64_t *axis, int ndim,
                              const int64_t *dim);
// Returns x broadcast to a shape as arrays are: its axes are the last ones of the result.
struct hlo_tensor hlo_fit(struct hlo_module *m, struct hlo_tensor x, int ndim,
                          const int64_t *dim);
// Returns x with `value`, which has no axes, low[i] times before, high[i] times after and between[i] times
// between the elements of axis i.
struct hlo_tensor hlo_pad(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor value,
                          const int64_t *low, const int64_t *high, const int64_t *between);
// Returns a tensor whose elements are their positions along an axis.
struct hlo_tensor hlo_iota(struct hlo_module *m, zl_dtype dtype, int ndim, const int64_t *dim, int axis);
// Returns a constant without axes.
struct hlo_tensor hlo_number(struct hlo_module *m, zl_dtype dtype, double value);
// Returns a constant without axes that has these bits.
struct hlo_tensor hlo_bits(struct hlo_module *m, zl_dtype dtype, uint64_t bits);
// Returns a constant of a shape whose elements are all equal.
struct hlo_tensor hlo_same(struct hlo_module *m, zl_dtype dtype, double value, int ndim, const int64_t *dim);
// Returns a number without axes that has these bits, as an argument of the program, so that its text does not
// depend on them (hlo_words.c). In a module that is only tried it is a constant.
struct hlo_tensor hlo_word(struct hlo_module *m, zl_dtype dtype, uint64_t bits);

// Returns size[i] elements of each axis i of x, from start[i] on; the starts have one integer dtype and no
// axes.
struct hlo_tensor hlo_slice_at(struct hlo_module *m, struct hlo_tensor x, const struct hlo_tensor *start,
                               const int64_t *size);
// Returns x with the elements from start[i] on, along each axis i, replaced by u.
struct hlo_tensor hlo_update_at(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor u,
                                const struct hlo_tensor *start);
// Makes starts for hlo_slice_at of the positions `place`, as arguments of the program; an axis that is taken
// whole starts at the constant 0.
void hlo_starts(struct hlo_module *m, struct hlo_tensor x, const int64_t *place, const int64_t *size,
                struct hlo_tensor *start);

// Elementwise statements are rendered from the tile expressions of rows and casts.

// Returns x converted to a dtype.
struct hlo_tensor hlo_cast(struct hlo_module *m, struct hlo_tensor x, zl_dtype dtype);
// Returns a row's op of up to 3 operands, which are broadcast to one shape. The row is that of the dtype of
// the last operand.
struct hlo_tensor hlo_apply(struct hlo_module *m, enum tile_op op, int count, const struct hlo_tensor *x);
// Return hlo_apply of one operand; of two operands.
struct hlo_tensor hlo_unary(struct hlo_module *m, enum tile_op op, struct hlo_tensor x);
struct hlo_tensor hlo_binary(struct hlo_module *m, enum tile_op op, struct hlo_tensor a, struct hlo_tensor b);
// Returns a where `truth` holds, and b elsewhere; all are broadcast to one shape.
struct hlo_tensor hlo_choose(struct hlo_module *m, struct hlo_tensor truth, struct hlo_tensor a,
                             struct hlo_tensor b);
// Returns the same bits as another dtype of the same size.
struct hlo_tensor hlo_reinterpret(struct hlo_module *m, struct hlo_tensor x,
                                  zl_dtype dtype);

// Reduces axes, which are removed, by a row's op; without elements the result is the op's identity. Floats of
// 16 bits are reduced in f32, and the result is rounded once.
struct hlo_tensor hlo_reduce(struct hlo_module *m, enum tile_op op, struct hlo_tensor x, int axes,
                             const int64_t *axis);
// Appends a region of one block that combines two scalars by an op, "({ ... })"; TILE_CONST yields the
// second one.
void hlo_combiner(struct hlo_module *m, enum tile_op op, zl_dtype dtype);

// Returns the product of matrices with the same batch axes, in a dtype (hlo_product.c).
struct hlo_tensor hlo_multiply(struct hlo_module *m, struct hlo_tensor a, struct hlo_tensor b,
                               zl_dtype dtype);
// Returns indices along an axis of `size` elements as signed integers that count from its beginning, whereas
// negative indices count from its end (hlo_index.c). Those out of range stay out of range.
struct hlo_tensor hlo_positions(struct hlo_module *m, struct hlo_tensor x, int64_t size);
// Returns the matrices of x, (N, rows, columns), that the indices name: as many as there are indices.
struct hlo_tensor hlo_pick(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor index);

// Makes the module fail with an error. Returns NULL.
void *hlo_refuse(struct hlo_module *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// hlo_view.c ------------------------------------------------------------------------------------------------

// Returns the elements of a view of base, which is dense. The view has this dtype and these sizes; strides
// and offset count elements of the dtype.
struct hlo_tensor hlo_view(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype, int ndim,
                           const int64_t *dim, const int64_t *stride, int64_t offset);
// Returns the same view if the sizes of some axes (bits of `varies`) differ from run to run; those of them
// that are the first part of an axis of the base become bounded.
struct hlo_tensor hlo_view_bounded(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype, int ndim,
                                   const int64_t *dim, const int64_t *stride, int64_t offset,
                                   uint64_t varies);

// hlo_sizes.c -----------------------------------------------------------------------------------------------

// The sizes that differed between segments that were equal otherwise. They are remembered as long as the
// process lives.
struct hlo_sizes {
    struct map place; // of each array: the index of its sizes in the list, plus 1
    uint8_t *varied;  // NULL: fewer than three lists of sizes were seen
};
// Records the sizes of a segment and finds those that vary. Returns false, with an error, if memory runs out;
// call close anyway.
bool hlo_sizes_open(struct hlo_sizes *sizes, const struct segment *s);
// Returns the axes of an array of the segment whose sizes vary, by bit.
uint64_t hlo_sizes_of(const struct hlo_sizes *sizes, zl_array x);
// Frees what open made.
void hlo_sizes_close(struct hlo_sizes *sizes);
// Returns the bound of an axis whose size varies: the least power of two that is at least `size` and 32.
int64_t hlo_step(int64_t size);

// Rows ------------------------------------------------------------------------------------------------------

#define ROW(name, function) hlo_row function;
#include "device/hlo/hlo_rows.def"

#endif
