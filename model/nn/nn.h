// nn.h - what the files of this folder share: the table of parameters, and the rows of optimisers.

#ifndef NN_H
#define NN_H

#include <signal.h>

#include "zellige_nn.h"

// nn_table.c ------------------------------------------------------------------------------------------------

enum { NN_DATA, NN_FSDP, NN_TENSOR, NN_AXES }; // of a mesh
enum { NN_DIMS_MOST = 8 };

struct nn_table;
// How a parameter is used beside an array: y = op(x, weight).
typedef zl_array (*nn_op)(zl_array x, zl_array weight);
struct nn_use {
    struct nn_table *table;
    int index;
    nn_op op;
};

struct nn_parameter {
    char *name;
    zl_array array;   // retained: this rank's shard
    zl_array current; // what layers take, while a transform runs the model on stand-ins; NULL: array
    zl_array whole;   // retained while a step is recorded: the stand-in without its division along fsdp
    zl_array again;   // the same for the backward pass
    zl_nn_kind kind;
    bool used;        // the model has asked for it
    int ndim;
    int64_t dim[NN_DIMS_MOST]; // of the whole parameter
    int split[NN_AXES];        // the axis that lies on an axis of the mesh; -1: none
    int bucket;
    struct nn_use use[2];      // of a product and of rows
};

struct nn_table {
    struct nn_parameter *parameter;
    int count, cap, next; // next: where the model is likely to ask
    int64_t seed;
    zl_dtype dtype;
    bool closed;
    struct nn_mesh *mesh; // NULL: this process is alone
    zl_nn places;
    char error[512];
};

// A place in a table; the first one is the table's handle.
struct zl_nn_ {
    struct nn_table *table;
    zl_nn next;
    char prefix[];
};

// Keeps the first message; returns false.
bool nn_fail(zl_nn nn, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a parameter of that shape at the end of the table; array: this rank's shard of it, or NULL until there
// is one.
struct nn_parameter *nn_add(zl_nn nn, const char *name, zl_shape shape, zl_array array); // NULL: it failed
void nn_print_shape(char *out, size_t bytes, zl_shape shape); // "(2, 3)"
struct nn_parameter *nn_find(zl_nn nn, const char *name);     // behind the place's prefix; NULL: none
// false after an error: it is too long
bool nn_full_name(zl_nn nn, const char *name, const char *end, char *out, size_t bytes);

// nn_mesh.c: which rank is where, and what of a parameter lies there ----------------------------------------

struct nn_mesh {
    struct nn_axis {
        int size, rank;
        zl_group group; // NULL: it has one rank
    } axis[NN_AXES];
    zl_group all, batch; // batch: ranks that have other rows of a batch, along data and fsdp
    int rows, row;       // how many these are, and which of them this rank is
    const zl_nn_shard *rule;
    int rules;
    int64_t bucket_bytes;
    // nn_bucket.c
    struct nn_bucket *bucket;
    int buckets, *order; // order: indices of parameters by bucket
    zl_array progress; // retained: how far the model is, while a step is recorded
    bool records;
    int64_t run; // a number that only this run has, on all its ranks; 0: not drawn yet
};
void nn_mesh_free(struct nn_mesh *mesh);
int nn_mesh_size(const struct nn_mesh *mesh, int axis); // 1 for NULL

// Fills p->split by the table of rules. False and an error where an axis does not divide.
bool nn_place_parameter(zl_nn nn, struct nn_parameter *p);
// Returns by how many ranks of tensor an axis of the parameter "name" behind nn is divided, or 1.
int nn_parts(zl_nn nn, const char *name, int axis);
// Returns this rank's shard of a whole parameter, or of anything of its shape. Shards along fsdp are of one
// size, with zeros at the end.
zl_array nn_shard_of(const struct nn_mesh *mesh, const struct nn_parameter *p, zl_array whole);
// Returns the parameter as it is used here: whole along fsdp, divided along tensor.
zl_array nn_gather(const struct nn_mesh *mesh, const struct nn_parameter *p, zl_array shard);
// of all ranks
zl_array nn_whole_of(const struct nn_mesh *mesh, const struct nn_parameter *p, zl_array shard);
// Where this rank's shard lies in the whole, without the zeros: [start, stop). False: it has none.
bool nn_extent(const struct nn_mesh *mesh, const struct nn_parameter *p, int64_t *start, int64_t *stop);
// What layers take whose outputs are divided along tensor: x itself, whose cotangents are summed over tensor.
zl_array nn_enter(zl_nn nn, zl_array x);
zl_array nn_leave(zl_nn nn, zl_array x); // the sum over tensor, whose cotangent is that of each part
// Of each rank's sums of squares of divided parameters, by [along fsdp][along tensor], the sum over all
// shards.
zl_array nn_sum_squares(const struct nn_mesh *mesh, zl_array sum[2][2]);

// nn_bucket.c: gradients sent, and parameters gathered, several at a time -----------------------------------

bool nn_buckets_make(zl_nn nn); // once the table is closed; false: out of memory
void nn_buckets_free(struct nn_mesh *mesh);
// Between these two a step is recorded: layers take `in` in the place of shards, in buckets.
void nn_record_begin(struct nn_table *table, const zl_array *in);
void nn_record_end(struct nn_table *table);
// the whole parameter, of a bucket; NULL after an error
zl_array nn_bucket_take(zl_nn nn, struct nn_parameter *p);
// Returns op(x, weight). Its derivative gathers the weight again, where that is divided along fsdp.
zl_array nn_use_weight(zl_nn nn, const char *name, int which, nn_op op, zl_array x, zl_array weight);

// nn_optimizer.c --------------------------------------------------------------------------------------------

enum { NN_STATES = 2 };

// One parameter in a step. Everything is float32, or what is wider.
struct nn_update {
    const zl_train_options *options; // with defaults filled in
    zl_nn_kind kind;
    const struct nn_mesh *mesh;      // NULL: none
    const struct nn_parameter *of;
    zl_array rate, grown[NN_STATES]; // grown: 1 - beta^steps
    zl_array gradient;
    zl_array parameter, state[NN_STATES]; // before the step, then behind it
};

struct nn_optimizer {
    const char *name;
    int (*states)(zl_nn_kind kind);
    void (*update)(struct nn_update *u);
};
const struct nn_optimizer *nn_optimizer_find(const char *name); // NULL: none
void nn_optimizer_defaults(zl_train_options *options);
bool nn_is_schedule(const char *name);

// nn_layer.c ------------------------------------------------------------------------------------------------

// entered: x is nn_enter's
zl_array nn_linear(zl_nn nn, const char *name, zl_array x, int outputs, bool bias, bool entered);

// nn_trainer.c and nn_checkpoint.c --------------------------------------------------------------------------

// What a parameter has besides itself.
struct nn_slot {
    zl_array state[NN_STATES]; // retained; NULL past those the optimiser has
    zl_array sum;              // of gradients of this step's batches; NULL: there are none yet
};

struct zl_trainer_ {
    zl_nn nn;
    zl_nn_loss loss;
    void *data;
    zl_train_options options;
    const struct nn_optimizer *optimizer;
    zl_compiled gradient, update;
    struct nn_slot *slot; // one for each parameter, once the table is closed
    int64_t step;
    int batches; // of the step that is not complete
    volatile sig_atomic_t stops;
    struct nn_writer *writer; // of the last checkpoint; NULL: none
};
void nn_replace(zl_array *owned, zl_array value);

enum { NN_NAME_BYTES = 300 };
// what a checkpoint says beside its arrays
bool nn_add_fields(zl_trainer t, zl_file *file, const char *about);
const char *nn_field_of(const zl_file *file, const char *name);     // NULL: it has no such text
// Calls visit with a parameter and with each array that belongs to it, by their names in checkpoints, until
// it returns false.
bool nn_each_array(zl_trainer t, int index, bool (*visit)(void *data, const char *name, zl_array a),
                   void *data);

// nn_shards.c -----------------------------------------------------------------------------------------------

bool nn_save_shards(zl_trainer t, const char *path, const char *about);
void nn_writer_free(zl_trainer t); // waits until what is under way is written
// Returns the files that a checkpoint consists of, a line each, to be freed; NULL: it is no index, or not
// there.
char *nn_files_of(const char *path);
// those of names, a line each, that are not kept; either may be ""
void nn_remove_files(const char *path, const char *names, const char *kept);
// a path in the same folder
void nn_beside(const char *path, const char *name, int length, char *out, size_t bytes);

#endif
