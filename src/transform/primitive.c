// primitive.c - describes calls as MLX's primitives with their arguments, for drawings and for listeners of
// the steps of a function. An op that is not in the table keeps its own name, in MLX's style, and its own
// arguments.

#include <ctype.h>
#include <string.h>

#include "transform/transform.h"

// Arguments -------------------------------------------------------------------------------------------------

enum shows {
    SHOW_END,
    SHOW_FIXED, // the number `at`
    SHOW_TRUTH, // the number `at` as a bool
    SHOW_ARG,   // argument `at`: as an integer, a bool, a double, and an integer as a double
    SHOW_ARG_BOOL,
    SHOW_ARG_DOUBLE,
    SHOW_ARG_NUMBER,
    SHOW_CODE,   // MLX's number for a code: the digit at index arg[at] of `code`
    SHOW_LETTER, // the letter at index arg[at] of `code`; a NUL follows each letter
    SHOW_DTYPE,  // of the result
    SHOW_BYTES,  // of an element of the result
    SHOW_LAST,   // the last axis of the first input
    SHOW_AXES,   // all axes of the first input
    SHOW_PART,   // part number `part` of the arguments from `at` on, divided into `of` equal parts
    // the same of three parts, the start, stop and step of each axis of the first input, clamped to its size
    SHOW_SLICE,
    SHOW_EVERY, // of the arguments from `at` on, every `of`-th, beginning with number `part`
    SHOW_HEAD,  // as many arguments from `at` on as argument 0 says
    SHOW_TAIL,  // the arguments after those
};

struct shown {
    uint8_t shows; // enum shows
    int8_t at, part, of;
    bool is_shape; // it is a shape: MLX distinguishes shapes from other lists
    const char *code;
};

#define SHOWN(what, ...) \
    { .shows = SHOW_##what, __VA_ARGS__ }
#define OWN                       SHOWN(END, .at = 0)
#define FIXED(number)             SHOWN(FIXED, .at = number)
#define TRUTH(value)              SHOWN(TRUTH, .at = value)
#define INT(index)                SHOWN(ARG, .at = index)
#define BOOL(index)               SHOWN(ARG_BOOL, .at = index)
#define NUMBER(index)             SHOWN(ARG_NUMBER, .at = index)
#define CODE(index, digits)       SHOWN(CODE, .at = index, .code = digits)
#define LETTER(index, letters)    SHOWN(LETTER, .at = index, .code = letters)
#define DTYPE                     SHOWN(DTYPE, .at = 0)
#define BYTES                     SHOWN(BYTES, .at = 0)
#define LAST_AXIS                 SHOWN(LAST, .at = 0)
#define ALL_AXES                  SHOWN(AXES, .at = 0)
#define LIST(index)               SHOWN(PART, .at = index, .of = 1)
#define SHAPE(index)              SHOWN(PART, .at = index, .of = 1, .is_shape = true)
#define PART(index, which, many)  SHOWN(PART, .at = index, .part = which, .of = many, .is_shape = true)
#define SLICE(index, which)       SHOWN(SLICE, .at = index, .part = which, .is_shape = true)
#define EVERY(index, which, many) SHOWN(EVERY, .at = index, .part = which, .of = many)
#define HEAD(index)               SHOWN(HEAD, .at = index)
#define TAIL(index)               SHOWN(TAIL, .at = index, .is_shape = true)

// The table -------------------------------------------------------------------------------------------------

enum { MOST = 8 };

// Numbers in MLX's enumerations, indexed by ours.
#define UPDATES "42301" // enum update
#define SCANS   "23014" // enum scan

static const struct primitive {
    const char *op, *label, *name;
    struct shown shown[MOST];
} primitives[] = {
#define PRIMITIVE(op, label, name, ...) {#op, #label, #name, {__VA_ARGS__}},
#include "transform/primitive.def"
};

static const struct primitive *find(const struct op *op) {
    for (int i = 0; i < (int)COUNT(primitives); i++)
        if (!strcmp(primitives[i].op, op->name))
            return &primitives[i];
    return NULL;
}

// Names -----------------------------------------------------------------------------------------------------

// Adds the name in camel case: "expand_dims" as "ExpandDims".
static void add_words(struct text *out, const char *name) {
    bool starts = true;
    for (; *name; name++) {
        if (*name != '_')
            text_add(out, "%c", starts ? toupper((unsigned char)*name) : *name);
        starts = *name == '_';
    }
}

void primitive_label(const struct op *op, struct text *out) {
    const struct primitive *p = find(op);
    if (p)
        text_add(out, "%s", p->label);
    else
        add_words(out, op->name);
}

// Showing ---------------------------------------------------------------------------------------------------

// Copies `count` arguments, `step` apart, to *room and advances it. Returns them as a list.
static zl_shape list_of(const int64_t *arg, int64_t step, int64_t count, int64_t **room) {
    zl_shape list = {*room, (int)count};
    for (int64_t i = 0; i < count; i++)
        *(*room)++ = arg[i * step];
    return list;
}

static zl_shape all_axes(int ndim, int64_t **room) {
    zl_shape list = {*room, ndim};
    for (int i = 0; i < ndim; i++)
        *(*room)++ = i;
    return list;
}

// Returns start, stop or step of a slice. With a negative step, the stop of a slice that includes the first
// element cannot be written as a negative index; as in MLX, it is -size - 1.
static zl_shape slice_part(const struct call *c, const int64_t *arg, int part, int64_t **room) {
    int ndim = c->in[0]->ndim;
    zl_shape list = {*room, ndim};
    for (int i = 0; i < ndim; i++) {
        int64_t size = c->in[0]->dim[i];
        struct slice_run run = op_slice_run(size, arg[i], arg[ndim + i], arg[2 * ndim + i]);
        int64_t stop = MIN_OF(run.start + run.count * run.step, size);
        *(*room)++ = part == 0 ? run.start : part == 2 ? run.step : stop < 0 ? -size - 1 : stop;
    }
    return list;
}

static zl_shape shown_list(const struct call *c, const struct shown *s, int64_t **room) {
    const int64_t *arg = call_args(c) + s->at;
    int64_t left = c->args - s->at, part = s->of ? left / s->of : 0;
    switch (s->shows) {
    case SHOW_PART: return list_of(arg + s->part * part, 1, part, room);
    case SHOW_SLICE: return slice_part(c, arg, s->part, room);
    case SHOW_EVERY: return list_of(arg + s->part, s->of, part, room);
    case SHOW_HEAD: return list_of(arg, 1, call_args(c)[0], room);
    case SHOW_TAIL: return list_of(arg + call_args(c)[0], 1, left - call_args(c)[0], room);
    default: return all_axes(c->in[0]->ndim, room);
    }
}

static zl_argument shown(const struct call *c, const struct shown *s, int64_t **room) {
    int64_t arg = s->at < c->args ? call_args(c)[s->at] : 0;
    zl_array y = call_first(c);
    switch (s->shows) {
    case SHOW_FIXED: return (zl_argument){ZL_ARGUMENT_INT, .integer = s->at};
    case SHOW_TRUTH: return (zl_argument){ZL_ARGUMENT_BOOL, .integer = s->at};
    case SHOW_ARG: return (zl_argument){ZL_ARGUMENT_INT, .integer = arg};
    case SHOW_ARG_BOOL: return (zl_argument){ZL_ARGUMENT_BOOL, .integer = arg};
    case SHOW_ARG_DOUBLE: return (zl_argument){ZL_ARGUMENT_DOUBLE, .number = op_arg_double(arg)};
    case SHOW_ARG_NUMBER: return (zl_argument){ZL_ARGUMENT_DOUBLE, .number = (double)arg};
    case SHOW_CODE: return (zl_argument){ZL_ARGUMENT_INT, .integer = s->code[arg] - '0'};
    case SHOW_LETTER: return (zl_argument){ZL_ARGUMENT_TEXT, .text = s->code + 2 * arg};
    case SHOW_DTYPE: return (zl_argument){ZL_ARGUMENT_DTYPE, .integer = y->dtype};
    case SHOW_BYTES: return (zl_argument){ZL_ARGUMENT_INT, .integer = (int64_t)array_item(y)};
    case SHOW_LAST: return (zl_argument){ZL_ARGUMENT_INT, .integer = c->in[0]->ndim - 1};
    default:
        return (zl_argument){s->is_shape ? ZL_ARGUMENT_SHAPE : ZL_ARGUMENT_LIST,
                             .list = shown_list(c, s, room)};
    }
}

// Describes a field of an op that is not in the table.
static struct shown own_field(const struct op *op, int index) {
    static const uint8_t shows[] = {[FIELD_INT] = SHOW_ARG,
                                    [FIELD_BOOL] = SHOW_ARG_BOOL,
                                    [FIELD_DOUBLE] = SHOW_ARG_DOUBLE,
                                    [FIELD_DTYPE] = SHOW_DTYPE,
                                    [FIELD_LIST] = SHOW_PART};
    return (struct shown){.shows = shows[op->field[index].type], .at = (int8_t)index, .of = 1};
}

static int count_shown(const struct primitive *p) {
    int count = 0;
    while (count < MOST && p->shown[count].shows)
        count++;
    return count;
}

bool primitive_show(const struct call *c, struct primitive_step *memory, zl_step *step) {
    const struct primitive *p = find(c->op);
    bool own = !p || !p->shown[0].shows;
    int count = own ? c->op->fields : count_shown(p), axes = c->inputs ? c->in[0]->ndim : 0;
    if (!memory_grow(&memory->argument, &memory->arguments, count + 1, sizeof *memory->argument) ||
        !memory_grow(&memory->word, &memory->words, (count + 1) * (c->args + axes + 1), sizeof *memory->word))
        return false;
    int64_t *next = memory->word;
    for (int i = 0; i < count; i++) {
        struct shown s = own ? own_field(c->op, i) : p->shown[i];
        memory->argument[i] = shown(c, &s, &next);
    }
    memory->name.len = 0;
    if (p)
        text_add(&memory->name, "%s", p->name);
    else
        add_words(&memory->name, c->op->name);
    *step = (zl_step){.name = memory->name.data, .arguments = count, .argument = memory->argument};
    return !memory->name.failed;
}

void primitive_step_free(struct primitive_step *memory) {
    text_free(&memory->name);
    memory_free(memory->argument);
    memory_free(memory->word);
}
