// formats.c - the public functions for files of all formats, on disk and in memory.

#include "io/io.h"

#include <string.h>

struct format {
    const char *name, *extension;
    bool (*load)(struct blob *b, zl_file *out);
    bool (*save)(struct sink *s, const zl_file *file);
};

static const struct format npy = {"npy", ".npy", npy_load, npy_save};
static const struct format npz = {"npz", ".npz", npz_load, npz_save};
static const struct format npz_compressed = {"npz_compressed", ".npz", npz_load, npz_save_compressed};
static const struct format safetensors = {"safetensors", ".safetensors", safetensors_load, safetensors_save};
static const struct format gguf = {"gguf", ".gguf", gguf_load, gguf_save};
static const struct format gguf_metadata = {"gguf_metadata", ".gguf", gguf_load_metadata, gguf_save};
static const struct format *const formats[] = {&npy,         &npz,  &npz_compressed,
                                               &safetensors, &gguf, &gguf_metadata};

static const struct format *find(const char *function, const char *name) {
    for (size_t i = 0; name && i < COUNT(formats); i++)
        if (!strcmp(formats[i]->name, name))
            return formats[i];
    return error_set(
        ZL_ERROR_VALUE,
        "%s: format '%s': npy, npz, npz_compressed, safetensors, gguf or gguf_metadata is needed", function,
        name ? name : "NULL");
}

static bool ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), tail = strlen(end);
    return bytes >= tail && !strcmp(text + bytes - tail, end);
}

static const struct format *find_by_extension(const char *function, const char *path) {
    for (size_t i = 0; path && i < COUNT(formats); i++)
        if (ends_with(path, formats[i]->extension))
            return formats[i];
    return error_set(
        ZL_ERROR_VALUE,
        "%s: the path '%s' does not end with .npy, .npz, .safetensors or .gguf: the options must name "
        "the format",
        function, path ? path : "NULL");
}

// Loading ---------------------------------------------------------------------------------------------------

// Loads a file from the blob, which it releases. Returns NULL, with an error, if that fails.
static zl_file *load(const struct format *format, struct blob *b) {
    zl_file *file = b ? zl_file_new() : NULL;
    bool ok = file != NULL;
    if (ok)
        ZL_SCOPE
            ok = format->load(b, file);
    blob_release(b);
    if (ok)
        return file;
    zl_file_free(file);
    return NULL;
}

static zl_file *load_path(const char *function, const struct format *format, const char *path, bool map) {
    bool is_first = !zl_error();
    zl_file *file = format ? load(format, blob_open(function, path, map)) : NULL;
    if (!file && is_first)
        error_name(function);
    return file;
}

zl_file *zl_load_file(const char *path, const zl_load_options *options) {
    static const char function[] = "zl_load_file";
    const char *name = options ? options->format : NULL;
    return load_path(function, name ? find(function, name) : find_by_extension(function, path), path,
                     !options || !options->no_mmap);
}

zl_file *zl_load_npz(const char *path) {
    return load_path("zl_load_npz", &npz, path, true);
}

zl_file *zl_load_safetensors(const char *path) {
    return load_path("zl_load_safetensors", &safetensors, path, true);
}

zl_file *zl_load_gguf(const char *path) {
    return load_path("zl_load_gguf", &gguf, path, true);
}

zl_array zl_load(const char *path) {
    zl_file *file = load_path("zl_load", &npy, path, true);
    zl_scope s = zl_scope_begin();
    zl_array a = zl_scope_leave(s, zl_file_array(file, 0));
    zl_file_free(file);
    return a;
}

zl_file *zl_load_memory(const char *format, const void *data, size_t bytes) {
    static const char function[] = "zl_load_memory";
    bool is_first = !zl_error();
    const struct format *known = find(function, format);
    zl_file *file = known ? load(known, blob_copy(function, data, bytes)) : NULL;
    if (!file && is_first)
        error_name(function);
    return file;
}

// Saving ----------------------------------------------------------------------------------------------------

static bool write_to(const struct format *format, struct sink *s, const zl_file *file) {
    bool ok = false;
    ZL_SCOPE
        ok = format->save(s, file);
    return ok;
}

static bool write_file(const struct format *format, const char *function, const char *path,
                       const zl_file *file) {
    struct text name = {0};
    struct file_out out;
    text_add(&name, "%s%s", path, ends_with(path, format->extension) ? "" : format->extension);
    if (name.failed)
        return false;
    struct sink s = {.function = function, .file = &out};
    bool ok = file_begin(&out, name.data) && write_to(format, &s, file) && sink_flush(&s);
    ok = file_end(&out, ok);
    memory_free(s.data);
    text_free(&name);
    return ok;
}

static bool save(const struct format *format, const char *function, const char *path, const zl_file *file) {
    bool is_first = !zl_error();
    if (!path || !file)
        return error_false(ZL_ERROR_VALUE, "%s: the %s is NULL", function, path ? "file" : "path");
    if (write_file(format, function, path, file))
        return true;
    if (is_first)
        error_name(function);
    return false;
}

bool zl_savez(const char *path, const zl_file *file) {
    return save(&npz, "zl_savez", path, file);
}

bool zl_savez_compressed(const char *path, const zl_file *file) {
    return save(&npz_compressed, "zl_savez_compressed", path, file);
}

bool zl_save_safetensors(const char *path, const zl_file *file) {
    return save(&safetensors, "zl_save_safetensors", path, file);
}

bool zl_save_gguf(const char *path, const zl_file *file) {
    return save(&gguf, "zl_save_gguf", path, file);
}

bool zl_save(const char *path, zl_array a) {
    zl_file *file = a ? zl_file_new() : NULL;
    bool ok = file && zl_file_add(file, "", a) && save(&npy, "zl_save", path, file);
    zl_file_free(file);
    return ok;
}

void *zl_save_memory(const char *format, const zl_file *file, size_t *bytes) {
    const struct format *known = find("zl_save_memory", format);
    if (!known)
        return NULL;
    if (!file || !bytes)
        return error_set(ZL_ERROR_VALUE, "zl_save_memory: the file or the place for the size is NULL");
    bool is_first = !zl_error();
    struct sink s = {.function = "zl_save_memory"};
    if (write_to(known, &s, file)) {
        *bytes = s.bytes;
        return s.data;
    }
    if (is_first)
        error_name(s.function);
    memory_free(s.data);
    return NULL;
}

bool zl_write_file(const char *path, const void *data, size_t bytes) {
    bool is_first = !zl_error();
    if (!path || (!data && bytes))
        return error_false(ZL_ERROR_VALUE, "zl_write_file: the %s is NULL", path ? "data" : "path");
    if (file_write(path, data, bytes))
        return true;
    if (is_first)
        error_name("zl_write_file");
    return false;
}
