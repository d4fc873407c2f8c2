// io.h - files of arrays: npy, npz, safetensors and gguf. This header is shared by the files of this folder.
//
// A format reads a blob, the bytes of a file, and writes to a sink. Errors begin with the function that the
// program called and, for a blob, the file's name. Blobs are not trusted: every size that they contain is
// compared with the number of bytes that exist.

#ifndef IO_H
#define IO_H

#include "op/op.h"

// blob.c ----------------------------------------------------------------------------------------------------

// The bytes of a file, kept as long as anything refers to them.
struct blob {
    atomic_int refs;
    bool mapped;          // data is a mapped file; else it is allocated, or part of another blob
    // only its first bytes are at data; the others are unpacked when an array of them is evaluated
    bool packed;
    bool counted;         // counts as memory of arrays
    bool in_memory;       // the program passed its bytes; there is no file
    struct blob *whole;   // the blob that it is a part of; NULL: none
    const char *function; // the public function that was called; label is what it reads. Both for errors
    char *label;
    const unsigned char *data;
    size_t bytes;
    size_t there;              // number of its bytes that are at data
    const unsigned char *from; // packed: its compressed bytes, which are in `whole`
    size_t from_bytes;
    uint32_t crc; // packed: checksum of all its bytes after unpacking
};
// All of these return a blob that blob_release frees, or NULL and an error. Memory that is not mapped counts
// as memory of arrays and is subject to their limit.

// Opens a file. If `map`, files of at least 1 MiB are mapped; others are read.
struct blob *blob_open(const char *function, const char *path, bool map);
// Copies bytes of the program.
struct blob *blob_copy(const char *function, const void *data, size_t bytes);
// Allocates memory, which the caller fills at *data.
struct blob *blob_new(const char *function, const char *label, size_t bytes, char **data);
// Returns a part, at an offset, which retains the whole. Errors contain its name.
struct blob *blob_part(struct blob *whole, const char *name, size_t offset, size_t bytes);
// Returns a part of this many bytes that is unpacked from from_bytes at an offset of `whole`. The caller
// fills its first `there` bytes at *data.
struct blob *blob_packed(struct blob *whole, const char *name, size_t offset, size_t from_bytes, size_t bytes,
                         uint32_t crc, size_t there, char **data);

// Drops a reference, and frees the blob with the last one. NULL is ignored.
void blob_release(struct blob *b);

// Records an error about the contents of a blob. Returns NULL; blob_false returns false.
void *blob_fail(const struct blob *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define blob_false(...) (blob_fail(__VA_ARGS__), false)

// Releases the pages of a mapped file in [from, to), so that they do not count as memory in use until they
// are read again. Does nothing for bytes that are not mapped.
void blob_leave(const struct blob *b, size_t from, size_t to);

// Returns an array of the elements at an offset, row-major; lent, or NULL and an error. The caller has
// checked that the bytes are there. Arrays of more than 1 MiB share the blob's memory if they are aligned and
// it is not packed; others are copied, or unpacked, when they are evaluated.
zl_array blob_array(struct blob *b, size_t offset, zl_dtype dtype, zl_shape shape);
// Computes the bytes of an array. Returns false, with an error, if they are too many to count.
bool blob_size(const struct blob *b, zl_dtype dtype, zl_shape shape, size_t *bytes);

// Named parts of a blob: the bytes [from, to). A list that is zero-initialised is empty; memory_free frees
// `span`.
struct span {
    uint64_t from, to;
    zl_text name;
};
struct spans {
    struct span *span;
    int count, cap;
};
// Appends a span unless it is empty; its name must live as long. Returns false, with an error, if memory runs
// out.
bool spans_add(struct spans *s, const char *name, size_t name_bytes, uint64_t from, uint64_t to);
// Sorts the spans, and returns whether no two of them overlap; otherwise returns false, with an error. Small
// files whose parts overlap could stand for huge arrays.
bool spans_are_apart(const struct blob *b, struct spans *s);

// A position in the data of a blob. The functions return false, with an error, if the blob ends too early.
struct reader {
    struct blob *blob;
    size_t at;
};
// Skips bytes, and sets *start to them unless it is NULL.
bool reader_skip(struct reader *r, uint64_t bytes, const unsigned char **start);
// Reads a little-endian number of at most 8 bytes.
bool reader_number(struct reader *r, int bytes, uint64_t *out);
// Reads a little-endian number of 4 bytes.
bool reader_u32(struct reader *r, uint32_t *out);

// sink.c ----------------------------------------------------------------------------------------------------

// The destination of a format: a file, or memory that grows. The functions return false, with an error, if
// they fail.
struct sink {
    const char *function;
    struct file_out *file; // NULL: memory
    char *data;            // all bytes, or those that are not in the file yet; memory_free frees it
    size_t cap, held;      // bytes of data
    size_t bytes;          // written so far
};
// Writes bytes.
bool sink_put(struct sink *s, const void *data, size_t bytes);
// Writes to the file the bytes that are still held in memory.
bool sink_flush(struct sink *s);
// Writes a little-endian number of at most 8 bytes.
bool sink_number(struct sink *s, int bytes, uint64_t value);
// Writes zeros until the number of bytes is a multiple of the alignment, at most 64.
bool sink_align(struct sink *s, size_t alignment);

// An array to be written: evaluated, row-major. Its data stay until the scope ends.
struct dense {
    zl_array array;
    const void *data;
    size_t bytes;
};
// Evaluates an array so that it can be written. Returns false, with an error, if that fails.
bool sink_dense(zl_array a, struct dense *out);
// Returns a list of all arrays of a file, evaluated together, which memory_free frees, or NULL and an error.
struct dense *sink_dense_all(const zl_file *file);

// file_list.c -----------------------------------------------------------------------------------------------

struct zl_file_ {
    struct arena arena; // names and texts
    struct map index;   // name to position, from 1 on
    struct map notes_index;
    zl_array *array;
    const char **name;
    int count, array_cap, name_cap;
    zl_metadata *note;
    int notes, note_cap;
};
// Appends an array of a blob, which is retained. Returns false, with an error, if the list has one of that
// name, a is NULL or memory runs out.
bool io_file_list_add(zl_file *file, const struct blob *b, const char *name, zl_array a);
// Appends metadata of a blob, which is copied. Returns false, with an error, if the list has that name or
// memory runs out.
bool io_file_list_note(zl_file *file, const struct blob *b, const zl_metadata *value);
// Returns a copy of a text in the file's arena, or NULL and an error if it contains a NUL or memory runs out.
const char *io_file_list_name(zl_file *file, const struct blob *b, const void *data, size_t bytes);

// Formats ---------------------------------------------------------------------------------------------------

// All functions of formats return false, or NULL, with an error, if they fail. Those that load append to
// `out`.

// Returns the array of an npy file, lent. If `late`, missing data is an error only when the array is read.
zl_array npy_array(struct blob *b, bool late);
// Returns the size of the header that begins with these bytes, or more than `bytes` if they are too few to
// determine it.
size_t npy_header_bytes(const unsigned char *data, size_t bytes);
// Loads the array of an npy file, under the name "".
bool npy_load(struct blob *b, zl_file *out);
// Saves a file of one array; others are an error.
bool npy_save(struct sink *s, const zl_file *file);
// Appends everything that comes before the data of an npy file.
bool npy_header(struct text *out, zl_array a);

// Loads all arrays of an npz file. Deflated ones are unpacked when they are evaluated.
bool npz_load(struct blob *b, zl_file *out);
// Saves the arrays without compression.
bool npz_save(struct sink *s, const zl_file *file);
// Saves the arrays with deflate.
bool npz_save_compressed(struct sink *s, const zl_file *file);
// Loads all arrays and the metadata of a safetensors file.
bool safetensors_load(struct blob *b, zl_file *out);
// Saves arrays and metadata.
bool safetensors_save(struct sink *s, const zl_file *file);
// Loads all arrays and the metadata of a gguf file.
bool gguf_load(struct blob *b, zl_file *out);
// Loads only the metadata, since unpacking quantised arrays takes time.
bool gguf_load_metadata(struct blob *b, zl_file *out);
// Saves arrays and metadata.
bool gguf_save(struct sink *s, const zl_file *file);

// json_read.c -----------------------------------------------------------------------------------------------

// A strict reader of JSON in a blob, from in.at up to end. Unless they say otherwise, the functions return
// false, with an error, if the text has something else there than they read.
struct json {
    struct reader in;
    size_t end;
    int depth;
};
// Skips blanks, and reads this character.
bool json_char(struct json *j, char c);
// Returns whether this character comes next, after blanks, and if so reads it. Sets no error.
bool json_is(struct json *j, char c);
// Reads a string, which replaces the text.
bool json_text(struct json *j, struct text *out);
// Reads an integer that is not negative and fits 63 bits.
bool json_size(struct json *j, uint64_t *out);
// Reads any number, or null as NaN.
bool json_number(struct json *j, double *out);
// Reads true or false.
bool json_flag(struct json *j, bool *out);
// Returns whether null comes next, and if so reads it. Sets no error.
bool json_is_null(struct json *j);
// Returns whether only blanks are left. Sets no error.
bool json_at_end(struct json *j);
// Skips a value of any kind.
bool json_skip(struct json *j);
// Reads a list. Calls `item` at each item, which reads the value; it may return false, with an error.
bool json_list(struct json *j, bool (*item)(struct json *j, void *context), void *context);
// Reads an object. Calls `member` with the name of each member, which reads the value, likewise.
bool json_object(struct json *j, bool (*member)(struct json *j, const char *name, int len, void *context),
                 void *context);

// deflate.c -------------------------------------------------------------------------------------------------
//
// zlib is opened at the first use. The functions return false, with an error, if they fail.

// Unpacks the first bytes of a packed blob.
bool deflate_start(const struct blob *b, void *out, size_t bytes);
// Unpacks all of a packed blob and compares its checksum; writes `bytes` of it, from `offset` on, to `out`.
bool deflate_unpack(const struct blob *b, size_t offset, void *out, size_t bytes);
// Packs the parts, in order, with deflate into *out, which the caller frees with memory_free.
bool deflate_pack(const char *function, const void *const *part, const size_t *bytes, int parts, char **out,
                  size_t *out_bytes);
// Returns the CRC-32 of zip, computed without zlib, continued from `crc` (0: from the beginning).
uint32_t deflate_crc(uint32_t crc, const void *data, size_t bytes);

#endif
