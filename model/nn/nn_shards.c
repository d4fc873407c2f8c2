// nn_shards.c - checkpoints of several ranks: each rank writes its shards in a thread, and rank 0 then
// replaces the index.
//
// The arrays that are written do not change while the thread holds them: training continues in other memory.
// File names contain the step and a number of the run, so that no file is written twice. Rank 0 waits until
// it sees all files, which needs no message between ranks, and until they are on their disk. If a process or
// the machine dies before that, the old index stays, and all files that it names.

#include "nn.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, WAIT_SECONDS = 300 };

struct nn_writer {
    pthread_t thread;
    zl_file *file, *index; // file: NULL on ranks that write nothing; index: on rank 0
    char path[PATH_BYTES], own[PATH_BYTES];
    char *names;     // of all files of the checkpoint, one per line
    char error[512]; // "": none
};

// Files beside a checkpoint ---------------------------------------------------------------------------------

void nn_beside(const char *path, const char *name, int length, char *out, size_t bytes) {
    const char *slash = strrchr(path, '/');
    snprintf(out, bytes, "%.*s%.*s", slash ? (int)(slash - path + 1) : 0, path, length, name);
}

char *nn_files_of(const char *path) {
    bool had_error = zl_error();
    zl_file *file =
        access(path, R_OK) ? NULL : zl_load_file(path, &(zl_load_options){.format = "safetensors"});
    const char *names = file ? nn_field_of(file, "files") : NULL;
    char *copy = names ? malloc(strlen(names) + 1) : NULL;
    if (copy)
        strcpy(copy, names);
    zl_file_free(file);
    if (!file && !had_error)
        zl_clear_error();
    return copy;
}

static bool has_line(const char *lines, const char *line, size_t length) {
    for (const char *at = lines; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n'))
        if (strcspn(at, "\n") == length && !strncmp(at, line, length))
            return true;
    return false;
}

// Waits until a file is on its disk, as far as the file system can tell.
static void sync_file(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    fsync(file);
    close(file);
}

// Returns whether a file is named as name_file does it. An index may come from others: it does not decide
// which other files are removed.
static bool is_shard(const char *path) {
    return !fnmatch("*.[0-9]*-[0-9]*.[0-9a-f]*.[0-9]*-of-[0-9]*.safetensors", path, 0);
}

void nn_remove_files(const char *path, const char *names, const char *kept) {
    char full[PATH_BYTES];
    if (names)
        sync_file(path);
    for (const char *at = names ? names : ""; *at;) {
        size_t length = strcspn(at, "\n");
        bool is_beside = length && !memchr(at, '/', length);
        if (is_beside && !has_line(kept, at, length)) {
            nn_beside(path, at, (int)length, full, sizeof full);
            if (is_shard(full))
                unlink(full);
        }
        at += length + (at[length] == '\n');
    }
}

// Writing ---------------------------------------------------------------------------------------------------

static bool say(struct nn_writer *w, const char *what) {
    if (!*w->error)
        snprintf(w->error, sizeof w->error, "%s", what ? what : "zl_trainer_save: out of memory");
    return false;
}

// Waits until all files of the checkpoint exist and are on their disk.
static bool wait_for_files(struct nn_writer *w) {
    const struct timespec pause = {.tv_nsec = 5000000};
    char full[PATH_BYTES], text[256];
    time_t until = time(NULL) + WAIT_SECONDS;
    for (const char *at = w->names; *at;) {
        size_t length = strcspn(at, "\n");
        nn_beside(w->path, at, (int)length, full, sizeof full);
        while (access(full, F_OK)) {
            if (time(NULL) > until) {
                snprintf(text, sizeof text,
                         "zl_trainer_save: %.*s did not appear in %d s: all ranks must write to one folder",
                         (int)length, at, WAIT_SECONDS);
                return say(w, text);
            }
            nanosleep(&pause, NULL);
        }
        sync_file(full);
        at += length + (at[length] == '\n');
    }
    return true;
}

static bool write_index(struct nn_writer *w) {
    char *old = wait_for_files(w) ? nn_files_of(w->path) : NULL;
    bool done = !*w->error && (zl_save_safetensors(w->path, w->index) || say(w, zl_error()));
    if (done)
        nn_remove_files(w->path, old, w->names);
    free(old);
    return done;
}

static void *write_all(void *data) {
    struct nn_writer *w = data;
    bool done = !w->file || zl_save_safetensors(w->own, w->file) || say(w, zl_error());
    if (done && w->index)
        write_index(w);
    return NULL;
}

static void free_writer(struct nn_writer *w) {
    zl_file_free(w->file);
    zl_file_free(w->index);
    free(w->names);
    free(w);
}

bool zl_trainer_wait(zl_trainer t) {
    struct nn_writer *w = t ? t->writer : NULL;
    if (!w)
        return t;
    pthread_join(w->thread, NULL);
    t->writer = NULL;
    bool done = !*w->error || nn_fail(t->nn, "%s", w->error);
    free_writer(w);
    return done;
}

void nn_writer_free(zl_trainer t) {
    if (t->writer) {
        pthread_join(t->writer->thread, NULL);
        free_writer(t->writer);
        t->writer = NULL;
    }
}

// What is written -------------------------------------------------------------------------------------------

static bool add_text(zl_file *file, const char *name, const char *text) {
    zl_text value = {text, strlen(text)};
    return zl_file_add_metadata(file, &(zl_metadata){.name = name, .text = &value, .texts = 1});
}

static void print_dims(char *out, size_t bytes, int ndim, const int64_t *dim) {
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < ndim && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, i ? ",%lld" : "%lld", (long long)dim[i]);
}

// One parameter in this rank's file: its shard, and arrays that belong to it.
struct piece {
    zl_file *file;
    int ndim;
    int64_t start[NN_DIMS_MOST], stop[NN_DIMS_MOST];
};

static bool add_piece(void *data, const char *name, zl_array a) {
    const struct piece *p = data;
    int64_t from[NN_DIMS_MOST] = {0}, to[NN_DIMS_MOST], step[NN_DIMS_MOST];
    char at[200], field[NN_NAME_BYTES + 8];
    bool padded = false, done = false;
    for (int i = 0; i < p->ndim; i++) {
        to[i] = p->stop[i] - p->start[i], step[i] = 1;
        padded |= to[i] < zl_dim(a, i);
    }
    print_dims(at, sizeof at, p->ndim, p->start);
    snprintf(field, sizeof field, "at %s", name);
    ZL_SCOPE {
        zl_array x = padded ? zl_contiguous(zl_slice(a, (zl_shape){from, p->ndim}, (zl_shape){to, p->ndim},
                                                     (zl_shape){step, p->ndim}),
                                            false)
                            : a;
        done = x && (!padded || zl_eval(x)) && zl_file_add(p->file, name, x) && add_text(p->file, field, at);
    }
    return done;
}

// Returns whether this rank writes its shard: along an axis that does not divide the parameter, only the
// first rank does.
static bool writes(const struct nn_mesh *m, const struct nn_parameter *p) {
    bool is = true;
    for (int i = 0; i < NN_AXES; i++)
        is = is && (p->split[i] >= 0 || m->axis[i].rank == 0);
    return is;
}

static bool add_pieces(zl_trainer t, zl_file *file) {
    const struct nn_table *table = t->nn->table;
    bool done = file;
    for (int i = 0; done && i < table->count; i++) {
        const struct nn_parameter *p = &table->parameter[i];
        struct piece piece = {.file = file, .ndim = p->ndim};
        if (writes(table->mesh, p) && nn_extent(table->mesh, p, piece.start, piece.stop))
            done = nn_each_array(t, i, add_piece, &piece);
    }
    return done;
}

// Writes a line of the index per array: its name, dtype and whole shape.
struct list {
    FILE *out;
    const struct nn_parameter *p;
};

static bool add_line(void *data, const char *name, zl_array a) {
    const struct list *l = data;
    char dims[200];
    print_dims(dims, sizeof dims, l->p->ndim, l->p->dim);
    return fprintf(l->out, "%s %s %s\n", name, zl_dtype_name(zl_dtype_of(a)), dims) > 0;
}

static char *list_arrays(zl_trainer t) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    bool done = out;
    for (int i = 0; done && i < t->nn->table->count; i++) {
        struct list l = {out, &t->nn->table->parameter[i]};
        done = nn_each_array(t, i, add_line, &l);
    }
    if ((out && fclose(out)) || !done) {
        free(text);
        return NULL;
    }
    return text;
}

static bool make_index(zl_trainer t, struct nn_writer *w, const char *about) {
    char *arrays = list_arrays(t);
    w->index = zl_file_new();
    bool done = arrays && w->index && nn_add_fields(t, w->index, about) &&
                add_text(w->index, "files", w->names) && add_text(w->index, "arrays", arrays);
    free(arrays);
    return done;
}

// Draws a number on rank 0, for all ranks, so that no other run writes files of the same names.
static bool draw_run(zl_nn nn) {
    struct nn_mesh *m = nn->table->mesh;
    struct timespec now;
    bool done = m->run != 0;
    clock_gettime(CLOCK_REALTIME, &now);
    ZL_SCOPE
        if (!done) {
            uint32_t own = (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec << 10 ^ (uint32_t)getpid() << 20;
            zl_array x =
                zl_broadcast(zl_from_i32((int32_t[]){(int32_t)(own & 0x7fffffff)}, ZL_SHAPE(1)), 0, m->all);
            done = zl_eval(x);
            m->run = done ? zl_item_int(x) + 1 : 0;
        }
    return done;
}

static void name_file(zl_trainer t, const char *path, int index, int count, char *out, size_t bytes) {
    snprintf(out, bytes, "%.*s.%lld-%d.%llx.%d-of-%d.safetensors",
             (int)(strlen(path) - strlen(".safetensors")), path, (long long)t->step, t->batches,
             (unsigned long long)t->nn->table->mesh->run, index + 1, count);
}

// Only the first ranks along data write.
static bool name_files(zl_trainer t, struct nn_writer *w, const char *path) {
    const struct nn_mesh *m = t->nn->table->mesh;
    int count = m->axis[NN_FSDP].size * m->axis[NN_TENSOR].size,
        index = m->axis[NN_FSDP].rank * m->axis[NN_TENSOR].size + m->axis[NN_TENSOR].rank;
    const char *slash = strrchr(path, '/');
    char name[PATH_BYTES];
    size_t bytes;
    FILE *out = open_memstream(&w->names, &bytes);
    snprintf(w->path, sizeof w->path, "%s", path);
    name_file(t, path, index, count, w->own, sizeof w->own);
    for (int i = 0; out && i < count; i++) {
        name_file(t, slash ? slash + 1 : path, i, count, name, sizeof name);
        fprintf(out, "%s\n", name);
    }
    return out && !fclose(out);
}

bool nn_save_shards(zl_trainer t, const char *path, const char *about) {
    const struct nn_mesh *m = t->nn->table->mesh;
    if (strlen(path) > PATH_BYTES - 128)
        return nn_fail(t->nn, "zl_trainer_save: the path has %zu bytes", strlen(path));
    if (!zl_trainer_wait(t) || !draw_run(t->nn))
        return false;
    struct nn_writer *w = calloc(1, sizeof *w);
    bool done = w && name_files(t, w, path);
    if (done && m->axis[NN_DATA].rank == 0)
        done = (w->file = zl_file_new()) && add_pieces(t, w->file);
    if (done && zl_group_rank(m->all) == 0)
        done = make_index(t, w, about);
    done = (done && !pthread_create(&w->thread, NULL, write_all, w)) ||
           (!zl_error() && nn_fail(t->nn, "zl_trainer_save: %s: out of memory", path));
    if (done)
        t->writer = w;
    else if (w)
        free_writer(w);
    return done;
}
