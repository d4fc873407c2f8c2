// file_list.c - the contents of a file: arrays and metadata by name.

#include "io/io.h"

#include <limits.h>
#include <string.h>

zl_file *zl_file_new(void) {
    zl_file *file = memory_zero(sizeof *file);
    if (file)
        file->index.seed = file->notes_index.seed = hash_secret();
    return file;
}

void zl_file_free(zl_file *file) {
    if (!file)
        return;
    for (int i = 0; i < file->count; i++)
        zl_release(file->array[i]);
    for (int i = 0; i < file->notes; i++)
        if (file->note[i].array)
            zl_release(file->note[i].array);
    memory_free(file->array);
    memory_free(file->name);
    memory_free(file->note);
    map_free(&file->index);
    map_free(&file->notes_index);
    arena_free(&file->arena);
    memory_free(file);
}

// Copies bytes into the arena and terminates them with a NUL.
static const char *keep(zl_file *file, const void *data, size_t bytes) {
    char *copy = arena_alloc(&file->arena, bytes + 1);
    if (copy && bytes)
        memcpy(copy, data, bytes);
    return copy;
}

const char *io_file_list_name(zl_file *file, const struct blob *b, const void *data, size_t bytes) {
    if (bytes > INT_MAX || memchr(data, 0, bytes))
        return blob_fail(b, "a name has a NUL inside, or is too long: %zu bytes", bytes);
    return keep(file, data, bytes);
}

// Returns the position of a name, counted from 1, or 0 if the list has no such name.
static intptr_t find(const struct map *index, const char *name) {
    return (intptr_t)map_get(index, name, strlen(name));
}

static bool set(struct map *index, const char *name, int position) {
    return map_set(index, name, strlen(name), (void *)(intptr_t)position);
}

static bool add(zl_file *file, const char *name, zl_array a) {
    if (!a || !memory_grow(&file->array, &file->array_cap, file->count + 1, sizeof *file->array) ||
        !memory_grow(&file->name, &file->name_cap, file->count + 1, sizeof *file->name))
        return false;
    const char *kept = keep(file, name, strlen(name));
    if (!kept || !set(&file->index, name, file->count + 1))
        return false;
    file->name[file->count] = kept;
    file->array[file->count++] = zl_retain(a);
    return true;
}

bool zl_file_add(zl_file *file, const char *name, zl_array a) {
    if (!file || !name)
        return error_false(ZL_ERROR_VALUE, "zl_file_add: the %s is NULL", file ? "name" : "file");
    if (find(&file->index, name))
        return error_false(ZL_ERROR_VALUE, "zl_file_add: there are two arrays named '%.200s'", name);
    return add(file, name, a);
}

bool io_file_list_add(zl_file *file, const struct blob *b, const char *name, zl_array a) {
    if (find(&file->index, name))
        return error_false(ZL_ERROR_VALUE, "%s: %s: there are two arrays named '%.200s'", b->function,
                           b->label, name);
    return add(file, name, a);
}

int zl_file_count(const zl_file *file) {
    return file ? file->count : 0;
}

static bool is_inside(const zl_file *file, int index) {
    return file && index >= 0 && index < file->count;
}

const char *zl_file_name(const zl_file *file, int index) {
    return is_inside(file, index) ? file->name[index] : NULL;
}

zl_array zl_file_array(const zl_file *file, int index) {
    return is_inside(file, index) ? file->array[index] : NULL;
}

zl_array zl_file_find(const zl_file *file, const char *name) {
    intptr_t at = file && name ? find(&file->index, name) : 0;
    if (at)
        return file->array[at - 1];
    return error_set(ZL_ERROR_VALUE, "zl_file_find: no array is named '%.200s'", name ? name : "NULL");
}

// Metadata --------------------------------------------------------------------------------------------------

static bool check_note(const zl_file *file, const zl_metadata *value) {
    if (!file || !value || !value->name || value->texts < 0 || (value->texts && !value->text))
        return error_false(ZL_ERROR_VALUE,
                           "zl_file_add_metadata: the file, the value, its name or its texts are NULL");
    if (!value->array && !value->is_list && value->texts != 1)
        return error_false(ZL_ERROR_VALUE,
                           "zl_file_add_metadata: '%.200s' has %d texts: one, a list of them or an array "
                           "is needed",
                           value->name, value->texts);
    return !find(&file->notes_index, value->name) ||
           error_false(ZL_ERROR_VALUE, "zl_file_add_metadata: '%.200s' is there already", value->name);
}

static const zl_text *keep_texts(zl_file *file, const zl_metadata *value) {
    zl_text *list = arena_alloc(&file->arena, sizeof *list * (size_t)(value->texts + 1));
    for (int i = 0; list && i < value->texts; i++) {
        list[i].bytes = value->text[i].bytes;
        if (!(list[i].data = keep(file, value->text[i].data, value->text[i].bytes)))
            return NULL;
    }
    return list;
}

static bool add_note(zl_file *file, const zl_metadata *value) {
    if (!memory_grow(&file->note, &file->note_cap, file->notes + 1, sizeof *file->note))
        return false;
    zl_metadata note = *value;
    note.texts = value->array ? 0 : value->texts;
    note.name = keep(file, value->name, strlen(value->name));
    note.text = note.texts ? keep_texts(file, value) : NULL;
    if (!note.name || (note.texts && !note.text) || !set(&file->notes_index, note.name, file->notes + 1))
        return false;
    if (note.array)
        zl_retain(note.array);
    file->note[file->notes++] = note;
    return true;
}

bool zl_file_add_metadata(zl_file *file, const zl_metadata *value) {
    return check_note(file, value) && add_note(file, value);
}

bool io_file_list_note(zl_file *file, const struct blob *b, const zl_metadata *value) {
    if (find(&file->notes_index, value->name))
        return error_false(ZL_ERROR_VALUE, "%s: %s: its metadata has '%.200s' twice", b->function, b->label,
                           value->name);
    return add_note(file, value);
}

bool zl_file_metadata(const zl_file *file, int index, zl_metadata *value) {
    if (!file || !value || index < 0 || index >= file->notes)
        return false;
    *value = file->note[index];
    return true;
}
