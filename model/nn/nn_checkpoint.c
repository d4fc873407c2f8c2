// nn_checkpoint.c - checkpoints: their contents, writing one file, and loading them on any mesh.

#include "nn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char own[] = "trainer."; // prefix of the names of arrays that are not parameters

static struct nn_table *table_of(zl_trainer t) {
    return t->nn->table;
}

// Saving ----------------------------------------------------------------------------------------------------

static bool add_text(zl_file *file, const char *name, const char *text) {
    zl_text value = {text, strlen(text)};
    return zl_file_add_metadata(file, &(zl_metadata){.name = name, .text = &value, .texts = 1});
}

bool nn_add_fields(zl_trainer t, zl_file *file, const char *about) {
    char seed[24], step[24], batches[24];
    snprintf(seed, sizeof seed, "%lld", (long long)table_of(t)->seed);
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(batches, sizeof batches, "%d", t->batches);
    return add_text(file, "about", about ? about : "") && add_text(file, "optimizer", t->optimizer->name) &&
           add_text(file, "seed", seed) && add_text(file, "step", step) && add_text(file, "batches", batches);
}

bool nn_each_array(zl_trainer t, int index, bool (*visit)(void *data, const char *name, zl_array a),
                   void *data) {
    const struct nn_parameter *p = &table_of(t)->parameter[index];
    const struct nn_slot *slot = &t->slot[index];
    char full[NN_NAME_BYTES];
    bool done = visit(data, p->name, p->array);
    for (int s = 0; done && s < NN_STATES; s++)
        if (slot->state[s]) {
            snprintf(full, sizeof full, "%sstate%d.%s", own, s, p->name);
            done = visit(data, full, slot->state[s]);
        }
    snprintf(full, sizeof full, "%ssum.%s", own, p->name);
    return done && (!slot->sum || visit(data, full, slot->sum));
}

static bool add_whole(void *file, const char *name, zl_array a) {
    return zl_file_add(file, name, a);
}

static bool save_alone(zl_trainer t, const char *path, const char *about) {
    zl_file *file = zl_file_new();
    bool done = file;
    for (int i = 0; done && i < table_of(t)->count; i++)
        done = nn_each_array(t, i, add_whole, file);
    done = done && nn_add_fields(t, file, about);
    char *old = done ? nn_files_of(path) : NULL;
    done = done && zl_save_safetensors(path, file);
    if (done)
        nn_remove_files(path, old, "");
    free(old);
    zl_file_free(file);
    return done;
}

bool zl_trainer_save(zl_trainer t, const char *path, const char *about) {
    if (!t)
        return false;
    const char *end = strrchr(path, '.');
    if (!end || strcmp(end, ".safetensors") != 0)
        return nn_fail(t->nn, "zl_trainer_save: %s: the name of a checkpoint ends with .safetensors", path);
    if (!t->slot)
        return nn_fail(t->nn, "zl_trainer_save: %s: no step was made yet", path);
    return table_of(t)->mesh ? nn_save_shards(t, path, about) : save_alone(t, path, about);
}

// What a checkpoint has -------------------------------------------------------------------------------------

// A checkpoint that is read: one file with whole arrays, or an index of files with parts of them.
struct source {
    zl_nn nn;
    const char *function, *path; // function: the caller's, for messages
    zl_file *file, **part;
    int parts;
    char *names;  // of the files of an index, one per line
    char *arrays; // of an index: a line per array, "NAME DTYPE 2,3"
};

// An array of a checkpoint: its name and whole shape.
struct entry {
    char name[NN_NAME_BYTES];
    zl_dtype dtype;
    int ndim;
    int64_t dim[NN_DIMS_MOST];
};

// Returns the value of a metadata entry that is a single text; NULL if the file has none of this name.
const char *nn_field_of(const zl_file *file, const char *name) {
    zl_metadata value;
    for (int i = 0; zl_file_metadata(file, i, &value); i++)
        if (!strcmp(value.name, name) && value.texts == 1)
            return value.text[0].data;
    return NULL;
}

static void close_source(struct source *s) {
    for (int i = 0; i < s->parts; i++)
        zl_file_free(s->part[i]);
    zl_file_free(s->file);
    free(s->part), free(s->names), free(s->arrays);
}

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

// Opens the files of an index. They may be mapped, since arrays are copied out of them.
static bool open_parts(struct source *s, const char *arrays) {
    char path[4096];
    s->names = nn_files_of(s->path), s->arrays = copy_text(arrays);
    s->part = s->names ? calloc(strlen(s->names) + 1, sizeof *s->part) : NULL;
    if (!s->part || !s->arrays)
        return nn_fail(s->nn, "%s: out of memory", s->function);
    for (const char *at = s->names; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        nn_beside(s->path, at, (int)strcspn(at, "\n"), path, sizeof path);
        if (!(s->part[s->parts] = zl_load_file(path, &(zl_load_options){.format = "safetensors"})))
            return false;
        s->parts++;
    }
    return true;
}

// Opens a checkpoint. It is read into memory instead of mapped, so that parameters in training do not depend
// on the file.
static bool open_source(struct source *s, zl_nn nn, const char *function, const char *path) {
    *s = (struct source){.nn = nn, .function = function, .path = path};
    s->file = zl_load_file(path, &(zl_load_options){.format = "safetensors", .no_mmap = true});
    const char *arrays = s->file ? nn_field_of(s->file, "arrays") : NULL;
    return s->file && (!arrays || open_parts(s, arrays));
}

static bool read_dims(const char *at, const char *end, struct entry *e) {
    char *next;
    for (e->ndim = 0; at < end && e->ndim < NN_DIMS_MOST; at = next + (*next == ',')) {
        e->dim[e->ndim++] = strtoll(at, &next, 10);
        if (next == at || e->dim[e->ndim - 1] < 0)
            return false;
    }
    return at >= end;
}

static bool read_line(struct source *s, const char *line, struct entry *e) {
    const char *end = line + strcspn(line, "\n"), *name_end = line + strcspn(line, " \n");
    char dtype[16] = "";
    int at = 0;
    bool done = *name_end == ' ' && name_end - line < NN_NAME_BYTES &&
                sscanf(name_end, " %15[a-z0-9] %n", dtype, &at) == 1 && read_dims(name_end + at, end, e);
    if (done)
        snprintf(e->name, sizeof e->name, "%.*s", (int)(name_end - line), line);
    for (e->dtype = (zl_dtype)0;
         done && e->dtype < ZL_DTYPE_COUNT && strcmp(zl_dtype_name(e->dtype), dtype) != 0;)
        e->dtype = (zl_dtype)(e->dtype + 1);
    return (done && e->dtype < ZL_DTYPE_COUNT) ||
           nn_fail(s->nn, "%s: %s: its list of arrays is damaged: %.60s", s->function, s->path, line);
}

// Reads the index-th array. *line, NULL at first, is its position in an index. Returns false after the last
// one, and after an error.
static bool next_entry(struct source *s, int index, const char **line, struct entry *e) {
    if (s->arrays) {
        *line = !*line ? s->arrays : *line + strcspn(*line, "\n");
        *line += **line == '\n';
        return **line && read_line(s, *line, e);
    }
    const char *name = zl_file_name(s->file, index);
    if (!name)
        return false;
    zl_array a = zl_file_array(s->file, index);
    e->ndim = zl_ndim(a);
    e->dtype = zl_dtype_of(a);
    snprintf(e->name, sizeof e->name, "%s", name);
    for (int i = 0; i < e->ndim && i < NN_DIMS_MOST; i++)
        e->dim[i] = zl_dim(a, i);
    return true;
}

// Parts -----------------------------------------------------------------------------------------------------

static zl_array find_array(const zl_file *file, const char *name) {
    const char *other;
    for (int i = 0; (other = zl_file_name(file, i)); i++)
        if (!strcmp(other, name))
            return zl_file_array(file, i);
    return NULL;
}

// Copies into x, which is [start, stop) of the whole array, the elements that a part contains; the part
// begins at `at` in the whole array. Returns the new x, and adds the number of these elements to *count.
static zl_array put_part(zl_array x, zl_array part, const int64_t *at, const int64_t *start,
                         const int64_t *stop, int64_t *count) {
    int64_t from[NN_DIMS_MOST], to[NN_DIMS_MOST], there[NN_DIMS_MOST], end[NN_DIMS_MOST], step[NN_DIMS_MOST];
    int64_t elements = 1;
    int ndim = zl_ndim(x);
    for (int i = 0; i < ndim; i++) {
        int64_t first = at[i] > start[i] ? at[i] : start[i], last = at[i] + zl_dim(part, i);
        last = last < stop[i] ? last : stop[i];
        if (first >= last)
            return x;
        from[i] = first - at[i], to[i] = last - at[i], there[i] = first - start[i], end[i] = last - start[i];
        step[i] = 1, elements *= last - first;
    }
    *count += elements;
    zl_shape steps = {step, ndim};
    return zl_slice_update(x, zl_slice(part, (zl_shape){from, ndim}, (zl_shape){to, ndim}, steps),
                           (zl_shape){there, ndim}, (zl_shape){end, ndim}, steps);
}

// Joins this rank's shard of the parameter p from the files of an index, in which all its elements must be
// present.
static zl_array join_parts(struct source *s, const struct nn_parameter *p, const struct entry *e) {
    const struct nn_mesh *m = s->nn->table->mesh;
    int64_t start[NN_DIMS_MOST], stop[NN_DIMS_MOST], wanted = 1, count = 0;
    char name[NN_NAME_BYTES + 8];
    bool any = nn_extent(m, p, start, stop);
    zl_array x = nn_shard_of(m, p, zl_zeros((zl_shape){e->dim, e->ndim}, e->dtype));
    for (int i = 0; i < e->ndim; i++)
        wanted *= stop[i] - start[i];
    snprintf(name, sizeof name, "at %s", e->name);
    for (int i = 0; any && x && i < s->parts; i++) {
        zl_array part = find_array(s->part[i], e->name);
        const char *text = part ? nn_field_of(s->part[i], name) : NULL;
        struct entry at;
        if (!part)
            continue;
        if (!text || !read_dims(text, text + strlen(text), &at) || at.ndim != e->ndim ||
            zl_ndim(part) != e->ndim || zl_dtype_of(part) != e->dtype) {
            nn_fail(s->nn, "%s: %s: the part %d of %s does not say where it belongs", s->function, s->path, i,
                    e->name);
            return NULL;
        }
        x = put_part(x, part, at.dim, start, stop, &count);
    }
    if (any && count != wanted)
        return nn_fail(s->nn, "%s: %s: %lld elements of %s are needed, and its files have %lld", s->function,
                       s->path, (long long)wanted, e->name, (long long)count),
               NULL;
    return zl_contiguous(x, false);
}

// Sets *out to this rank's shard, retained.
static bool take_shard(struct source *s, const struct nn_parameter *p, const struct entry *e, zl_array *out) {
    bool done = false;
    ZL_SCOPE {
        const struct nn_mesh *m = s->nn->table->mesh;
        zl_array x = s->arrays ? join_parts(s, p, e) : find_array(s->file, e->name);
        if (x && m && !s->arrays)
            x = zl_contiguous(nn_shard_of(m, p, x), false);
        done = x && zl_eval(x);
        if (done)
            nn_replace(out, x);
    }
    return done;
}

// Loading ---------------------------------------------------------------------------------------------------

static bool take_parameters(struct source *s) {
    struct nn_table *table = s->nn->table;
    struct entry e;
    const char *line = NULL;
    bool done = true;
    if (table->count)
        return nn_fail(s->nn, "%s: %s: the model has parameters already; load before it runs", s->function,
                       s->path);
    for (int i = 0; done && next_entry(s, i, &line, &e); i++)
        if (strncmp(e.name, own, strlen(own)) != 0) {
            struct nn_parameter *p = nn_add(s->nn, e.name, (zl_shape){e.dim, e.ndim}, NULL);
            done = p && take_shard(s, p, &e, &p->array);
            table->count -= p && !done;
            if (p && !done)
                free(p->name);
        }
    if (done && !*table->error && !table->count)
        done = nn_fail(s->nn, "%s: %s has no parameters", s->function, s->path);
    table->closed = done && !*table->error;
    return table->closed;
}

bool zl_nn_load(zl_nn nn, const char *path) {
    struct source s = {0};
    bool done = nn && open_source(&s, nn, "zl_nn_load", path) && take_parameters(&s);
    close_source(&s);
    return done;
}

static bool check_field(zl_trainer t, const struct source *s, const char *name, const char *wanted) {
    const char *has = nn_field_of(s->file, name);
    return (has && !strcmp(has, wanted)) ||
           nn_fail(t->nn, "zl_trainer_load: %s is of %s '%s', and this training of '%s'", s->path, name,
                   has ? has : "none", wanted);
}

static bool take_number(zl_trainer t, const struct source *s, const char *name, int64_t *out) {
    const char *text = nn_field_of(s->file, name);
    char *end;
    *out = text ? strtoll(text, &end, 10) : -1;
    return (text && *text && !*end && *out >= 0) ||
           nn_fail(t->nn, "zl_trainer_load: %s has no number '%s'", s->path, name);
}

static bool fits(zl_trainer t, const char *path, const struct entry *e, const struct nn_parameter *p) {
    return (e->ndim == p->ndim && !memcmp(e->dim, p->dim, (size_t)e->ndim * sizeof *e->dim)) ||
           nn_fail(t->nn, "zl_trainer_load: %s: %s has another shape than its parameter", path, e->name);
}

// Loads one array of the trainer's state. Its name is "trainer.state0.", "trainer.state1." or "trainer.sum.",
// followed by the name of its parameter.
static bool take_own(zl_trainer t, struct source *source, const struct entry *e) {
    struct nn_table *table = table_of(t);
    int s = -1;
    const char *kind = e->name + strlen(own), *dot = strchr(kind, '.');
    bool sum = !strncmp(kind, "sum.", 4),
         state = dot && sscanf(kind, "state%d.", &s) == 1 && s >= 0 && s < NN_STATES;
    for (int i = 0; (sum || state) && i < table->count; i++)
        if (!strcmp(table->parameter[i].name, dot + 1))
            return fits(t, source->path, e, &table->parameter[i]) &&
                   take_shard(source, &table->parameter[i], e, sum ? &t->slot[i].sum : &t->slot[i].state[s]);
    return nn_fail(t->nn, "zl_trainer_load: %s: no parameter has %s", source->path, e->name);
}

static bool take_all(zl_trainer t, struct source *s, const char *about) {
    char seed[24];
    int64_t steps, begun;
    snprintf(seed, sizeof seed, "%lld", (long long)table_of(t)->seed);
    if (!check_field(t, s, "about", about ? about : "") ||
        !check_field(t, s, "optimizer", t->optimizer->name) || !check_field(t, s, "seed", seed) ||
        !take_number(t, s, "step", &steps) || !take_number(t, s, "batches", &begun) || !take_parameters(s))
        return false;
    if (begun >= t->options.accumulate)
        return nn_fail(t->nn,
                       "zl_trainer_load: %s has %lld batches of a step, and this training has %d in all",
                       s->path, (long long)begun, t->options.accumulate);
    t->slot = calloc((size_t)table_of(t)->count, sizeof *t->slot);
    bool done = t->slot || nn_fail(t->nn, "zl_trainer_load: out of memory");
    struct entry e;
    const char *line = NULL;
    for (int i = 0; done && next_entry(s, i, &line, &e); i++)
        done = strncmp(e.name, own, strlen(own)) != 0 || take_own(t, s, &e);
    for (int i = 0; done && begun && i < table_of(t)->count; i++)
        if (!t->slot[i].sum)
            done = nn_fail(t->nn, "zl_trainer_load: %s has no %ssum.%s", s->path, own,
                           table_of(t)->parameter[i].name);
    t->step = steps, t->batches = (int)begun;
    return done;
}

bool zl_trainer_load(zl_trainer t, const char *path, const char *about) {
    struct source s = {0};
    bool done = t && open_source(&s, t->nn, "zl_trainer_load", path) && take_all(t, &s, about);
    close_source(&s);
    return done;
}
