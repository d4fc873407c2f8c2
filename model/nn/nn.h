// nn.h - declarations that the files of this folder share: the table of parameters, and the rows of
// optimisers.

#ifndef NN_H
#define NN_H

#include <signal.h>

#include "zellige_nn.h"

// nn_table.c ------------------------------------------------------------------------------------------------

enum { NN_DATA, NN_FSDP, NN_TENSOR, NN_AXES }; // axes of a mesh
enum { NN_DIMS_MOST = 8 };

struct nn_table;
// An op on an array and a weight: y = op(x, weight).
typedef zl_array (*nn_op)(zl_array x, zl_array weight);
struct nn_use {
    struct nn_table *table;
    int index;
    nn_op op;
};

struct nn_parameter {
    char *name;
    zl_array array;   // retained: this rank's shard
    zl_array current; // what layers take while a transform runs the model on other arrays; NULL: array
    zl_array whole;   // retained while a step is recorded: `current`, gathered along fsdp
    zl_array again;   // the same, gathered again for the backward pass
    zl_nn_kind kind;
    bool used;        // the model has looked it up
    int ndim;
    int64_t dim[NN_DIMS_MOST]; // of the whole parameter
    int split[NN_AXES];        // the axis of the parameter that each axis of the mesh divides; -1: none
    int bucket;
    struct nn_use use[2];      // as the weight of a product; as rows that are looked up
};

struct nn_table {
    struct nn_parameter *parameter;
    int count, cap, next; // next: index at which the next look-up starts
    int64_t seed;
    zl_dtype dtype;
    bool closed;
    struct nn_mesh *mesh; // NULL: the table is not distributed
    zl_nn places;
    char error[512];
};

// A place in a table; the first one is the table's handle.
struct zl_nn_ {
    struct nn_table *table;
    zl_nn next;
    char prefix[];
};

// Records an error of the table, unless it has one already. Returns false.
bool nn_fail(zl_nn nn, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a parameter of that shape at the end of the table. `array` is this rank's shard of it, which is
// retained, or NULL until there is one. Returns NULL after an error.
struct nn_parameter *nn_add(zl_nn nn, const char *name, zl_shape shape, zl_array array);
// Writes a shape as text, "(2, 3)".
void nn_print_shape(char *out, size_t bytes, zl_shape shape);
// Finds a parameter by its name without the place's prefix. Returns NULL if there is none.
struct nn_parameter *nn_find(zl_nn nn, const char *name);
// Writes the place's prefix, the name and `end` to `out`. Returns false, with an error, if that is too
// long.
bool nn_full_name(zl_nn nn, const char *name, const char *end, char *out, size_t bytes);

// nn_mesh.c: the ranks of a mesh, and their parts of parameters ---------------------------------------------

struct nn_mesh {
    struct nn_axis {
        int size, rank;
        zl_group group; // NULL: the axis has one rank
    } axis[NN_AXES];
    zl_group all, batch; // batch: ranks that take different rows of a batch, along data and fsdp
    int rows, row;       // number of such ranks, and the index of this one among them
    const zl_nn_shard *rule;
    int rules;
    int64_t bucket_bytes;
    // nn_bucket.c
    struct nn_bucket *bucket;
    int buckets, *order; // order: indices of parameters by bucket
    zl_array progress; // retained while a step is recorded: the newest result of a layer
    bool records;
    int64_t run; // a number that only this run has, the same on all its ranks; 0: not drawn yet
};
// Frees a mesh and releases its groups. NULL is allowed.
void nn_mesh_free(struct nn_mesh *mesh);
// Returns the number of ranks along an axis; 1 if the mesh is NULL.
int nn_mesh_size(const struct nn_mesh *mesh, int axis);

// Fills in p->split by the rules of the mesh. Returns false, with an error, if an axis does not exist or
// does not divide evenly along tensor.
bool nn_place_parameter(zl_nn nn, struct nn_parameter *p);
// Returns by how many ranks along tensor an axis of the parameter `name` of the place nn is divided; 1 if
// it is not.
int nn_parts(zl_nn nn, const char *name, int axis);
// Returns this rank's shard of a whole parameter, or of anything of its shape. Shards along fsdp are of one
// size, with zeros at the end.
zl_array nn_shard_of(const struct nn_mesh *mesh, const struct nn_parameter *p, zl_array whole);
// Returns the parameter as it is used here: whole along fsdp, divided along tensor.
zl_array nn_gather(const struct nn_mesh *mesh, const struct nn_parameter *p, zl_array shard);
// Returns the whole parameter, gathered from the shards of all ranks.
zl_array nn_whole_of(const struct nn_mesh *mesh, const struct nn_parameter *p, zl_array shard);
// Finds the place of this rank's shard in the whole parameter, without padding: [start, stop) along each
// axis. Returns false if the shard is empty.
bool nn_extent(const struct nn_mesh *mesh, const struct nn_parameter *p, int64_t *start, int64_t *stop);
// Returns x, for a layer whose outputs are divided along tensor; the cotangents of x are summed over
// tensor.
zl_array nn_enter(zl_nn nn, zl_array x);
// Returns the sum of x over tensor. The cotangent of each part is that of the sum.
zl_array nn_leave(zl_nn nn, zl_array x);
// Returns the sum over all shards of this rank's sums of squares, which are indexed by whether parameters
// are divided: [along fsdp][along tensor].
zl_array nn_sum_squares(const struct nn_mesh *mesh, zl_array sum[2][2]);

// nn_bucket.c: gradients sent, and parameters gathered, several at a time -----------------------------------

// Divides the parameters of a closed table into buckets. Returns false if memory runs out.
bool nn_buckets_make(zl_nn nn);
// Frees the buckets.
void nn_buckets_free(struct nn_mesh *mesh);
// Begins to record a step, in which layers take `in` instead of the shards.
void nn_record_begin(struct nn_table *table, const zl_array *in);
// Ends the recording of a step.
void nn_record_end(struct nn_table *table);
// Returns a parameter that is whole along fsdp; while a step is recorded, it is gathered with its bucket.
// Returns NULL after an error.
zl_array nn_bucket_take(zl_nn nn, struct nn_parameter *p);
// Returns op(x, weight). Its derivative gathers the weight again if it is divided along fsdp.
zl_array nn_use_weight(zl_nn nn, const char *name, int which, nn_op op, zl_array x, zl_array weight);

// nn_optimizer.c --------------------------------------------------------------------------------------------

enum { NN_STATES = 2 };

// One parameter in a step. All arrays are float32, or a wider dtype.
struct nn_update {
    const zl_train_options *options; // with defaults filled in
    zl_nn_kind kind;
    const struct nn_mesh *mesh;      // NULL: none
    const struct nn_parameter *of;
    zl_array rate, grown[NN_STATES]; // grown: 1 - beta^steps
    zl_array gradient;
    zl_array parameter, state[NN_STATES]; // before the step, then after it
};

struct nn_optimizer {
    const char *name;
    int (*states)(zl_nn_kind kind);
    void (*update)(struct nn_update *u);
};
// Returns the optimiser of that name, or NULL if there is none.
const struct nn_optimizer *nn_optimizer_find(const char *name);
// Replaces zeros in the options with their defaults.
void nn_optimizer_defaults(zl_train_options *options);
// Returns the name of a schedule as a text that is always valid; NULL if there is none of that name.
const char *nn_schedule_name(const char *name);

// nn_layer.c ------------------------------------------------------------------------------------------------

// Returns what zl_nn_linear returns. If `entered`, x is a result of nn_enter already.
zl_array nn_linear(zl_nn nn, const char *name, zl_array x, int outputs, bool bias, bool entered);

// nn_trainer.c and nn_checkpoint.c --------------------------------------------------------------------------

// The arrays that a parameter has besides its value.
struct nn_slot {
    zl_array state[NN_STATES]; // retained; NULL past those the optimiser has
    zl_array sum;              // of gradients of the batches of this step so far; NULL: there are none yet
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
    int batches; // batches of the step that is not complete yet
    volatile sig_atomic_t stops;
    struct nn_writer *writer; // of the last checkpoint; NULL: none
};
// Stores `value`, retained, in *owned and releases the old array. Evaluates nothing.
void nn_replace(zl_array *owned, zl_array value);

enum { NN_NAME_BYTES = 300 };
// Adds the metadata of a checkpoint: about, optimiser, seed, steps. Returns false, with an error, if that
// fails.
bool nn_add_fields(zl_trainer t, zl_file *file, const char *about);
// Returns a text of the metadata, valid as long as the file; NULL if there is none of that name.
const char *nn_field_of(const zl_file *file, const char *name);
// Calls visit with a parameter and with each array that belongs to it, by their names in checkpoints, until
// it returns false. Returns whether it always returned true.
bool nn_each_array(zl_trainer t, int index, bool (*visit)(void *data, const char *name, zl_array a),
                   void *data);

// nn_shards.c -----------------------------------------------------------------------------------------------

// Starts a thread that writes this rank's shards, and on rank 0 the index, after the checkpoint before it
// is written. Returns false, with an error, if that fails.
bool nn_save_shards(zl_trainer t, const char *path, const char *about);
// Waits until the checkpoint is written, and frees its writer.
void nn_writer_free(zl_trainer t);
// Returns the names of the files that a checkpoint consists of, one per line, to be freed with free; NULL
// if it is not an index or cannot be read.
char *nn_files_of(const char *path);
// Removes the files of `names`, one per line, in the folder of `path`, except those that are in `kept` and
// those that are not named like shards. Waits before that until `path` is on its disk. NULL `names` stands
// for none; `kept` may be "".
void nn_remove_files(const char *path, const char *names, const char *kept);
// Writes the path of a file `name`, of `length` bytes, in the folder of `path`.
void nn_beside(const char *path, const char *name, int length, char *out, size_t bytes);

#endif
