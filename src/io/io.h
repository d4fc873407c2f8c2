// io.h - files of arrays: npy, npz, safetensors and gguf. What the files of this folder offer each other.
//
// A format reads a blob, the bytes of a file, and writes to a sink. Both have the function that was called
// and the file's name, which errors begin with. Nothing of a blob is trusted: every size is compared with the
// bytes that are there.

#ifndef IO_H
#define IO_H

#include "op/op.h"

// blob.c ----------------------------------------------------------------------------------------------------

// The bytes of a file, kept as long as something refers to them.
struct blob {
    atomic_int refs;
    bool mapped;          // from a file; else memory of its own, or a part
    // only its first bytes are at data: the others are unpacked when an array of them is evaluated
    bool packed;
    bool counted;         // among the memory of arrays
    bool in_memory;       // the program gave its bytes: there is no file
    struct blob *whole;   // that it is a part of; NULL: none
    const char *function; // that was called, and what it read: for errors
    char *label;
    const unsigned char *data;
    size_t bytes;
    size_t there;              // of them, at data
    const unsigned char *from; // packed: what it is unpacked from, in whole
    size_t from_bytes;
    uint32_t crc; // packed: of all its bytes, unpacked
};
// Each gives NULL and an error. Memory that is not mapped counts as memory of arrays and is held to its limit
// before it is allocated. map: files that are big enough are mapped; else they are read.
struct blob *blob_open(const char *function, const char *path, bool map);
struct blob *blob_copy(const char *function, const void *data, size_t bytes);
// Memory to be filled by the caller, at *data.
struct blob *blob_new(const char *function, const char *label, size_t bytes, char **data);
// A part that lies at an offset; errors name it.
struct blob *blob_part(struct blob *whole, const char *name, size_t offset, size_t bytes);
// A part of so many bytes that is unpacked from from_bytes at an offset of whole. Its first `there` bytes are
// to be filled by the caller, at *data.
struct blob *blob_packed(struct blob *whole, const char *name, size_t offset, size_t from_bytes, size_t bytes,
                         uint32_t crc, size_t there, char **data);
void blob_release(struct blob *b);

// Records that the blob is not what it should be. False, NULL.
void *blob_fail(const struct blob *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define blob_false(...) (blob_fail(__VA_ARGS__), false)

// Gives pages of the file back that lie in [from, to): they do not count as memory in use until they are read
// again. Of bytes that are not mapped: nothing.
void blob_leave(const struct blob *b, size_t from, size_t to);

// An array of what lies at an offset, row-major, lent; it is not checked that the bytes are there. Big ones
// share the blob's memory; others are copied from it, or unpacked, when they are evaluated.
zl_array blob_array(struct blob *b, size_t offset, zl_dtype dtype, zl_shape shape);
// Bytes of an array; false and an error when they are too many to count.
bool blob_size(const struct blob *b, zl_dtype dtype, zl_shape shape, size_t *bytes);

// Where things lie in a blob. A list that is zero-initialised is empty; span is freed by memory_free.
struct span {
    uint64_t from, to;
    zl_text name;
};
struct spans {
    struct span *span;
    int count, cap;
};
// keeps the name's address
bool spans_add(struct spans *s, const char *name, size_t name_bytes, uint64_t from, uint64_t to);
// Whether no two of them overlap, else an error: files whose parts do stand for far more than their size.
// Sorts them.
bool spans_are_apart(const struct blob *b, struct spans *s);

// Where a format reads what is at data: little-endian numbers one after the other. False and an error at the
// end.
struct reader {
    struct blob *blob;
    size_t at;
};
bool reader_skip(struct reader *r, uint64_t bytes, const unsigned char **start); // start may be NULL
bool reader_number(struct reader *r, int bytes, uint64_t *out);
bool reader_u32(struct reader *r, uint32_t *out);

// sink.c ----------------------------------------------------------------------------------------------------

// Where a format writes: a file, or memory that grows.
struct sink {
    const char *function;
    struct file_out *file; // NULL: memory
    char *data;            // freed by memory_free: all of it, or what a file has not got yet
    size_t cap, held;      // bytes of data
    size_t bytes;          // so far
};
bool sink_put(struct sink *s, const void *data, size_t bytes);
bool sink_flush(struct sink *s); // gives a file what is held
bool sink_number(struct sink *s, int bytes, uint64_t value); // little-endian
bool sink_align(struct sink *s, size_t alignment);            // with zeros

// An array as it is written: evaluated, row-major. Its data stay until the scope ends.
struct dense {
    zl_array array;
    const void *data;
    size_t bytes;
};
bool sink_dense(zl_array a, struct dense *out);
// Those of a file, to be freed; NULL and an error.
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
// As zl_file_add and zl_file_add_metadata, for what a blob holds: a name that comes twice is the blob's
// error.
bool io_file_list_add(zl_file *file, const struct blob *b, const char *name, zl_array a);
bool io_file_list_note(zl_file *file, const struct blob *b, const zl_metadata *value);
// A text in the file's arena; NULL and an error when it has a NUL inside, or memory is out.
const char *io_file_list_name(zl_file *file, const struct blob *b, const void *data, size_t bytes);

// Formats ---------------------------------------------------------------------------------------------------

// late: data that is missing shows when the array is read.
zl_array npy_array(struct blob *b, bool late);
// Returns how many bytes the header takes that begins with these; more than `bytes` if they do not say it.
size_t npy_header_bytes(const unsigned char *data, size_t bytes);
bool npy_load(struct blob *b, zl_file *out);
bool npy_save(struct sink *s, const zl_file *file);
bool npy_header(struct text *out, zl_array a); // all that comes before the data

bool npz_load(struct blob *b, zl_file *out);
bool npz_save(struct sink *s, const zl_file *file);
bool npz_save_compressed(struct sink *s, const zl_file *file);
bool safetensors_load(struct blob *b, zl_file *out);
bool safetensors_save(struct sink *s, const zl_file *file);
bool gguf_load(struct blob *b, zl_file *out);
// without its arrays, of which quantised ones take time
bool gguf_load_metadata(struct blob *b, zl_file *out);
bool gguf_save(struct sink *s, const zl_file *file);

// json_read.c -----------------------------------------------------------------------------------------------

// A strict reader of JSON in a blob, from at up to end. Functions give false and an error at what is not as
// said.
struct json {
    struct reader in;
    size_t end;
    int depth;
};
bool json_char(struct json *j, char c);     // after blanks
bool json_is(struct json *j, char c);       // whether it comes next; takes it if so, and gives no error
bool json_text(struct json *j, struct text *out);
bool json_size(struct json *j, uint64_t *out); // a whole number that is not negative
bool json_number(struct json *j, double *out); // any number; null is NaN
bool json_flag(struct json *j, bool *out);     // true or false
bool json_is_null(struct json *j);             // whether it comes next; takes it if so
bool json_at_end(struct json *j);              // only blanks are left
bool json_skip(struct json *j);                // a value of any kind
// Calls item at each item of a list; it reads the value.
bool json_list(struct json *j, bool (*item)(struct json *j, void *context), void *context);
// Calls member with the name of each member of an object; it reads the value.
bool json_object(struct json *j, bool (*member)(struct json *j, const char *name, int len, void *context),
                 void *context);

// deflate.c: by zlib, opened at the first use; false and an error -------------------------------------------

// Unpacks the first bytes of a packed blob.
bool deflate_start(const struct blob *b, void *out, size_t bytes);
// Unpacks all of a packed blob and compares its checksum; out gets so many bytes from an offset on.
bool deflate_unpack(const struct blob *b, size_t offset, void *out, size_t bytes);
// Deflates the parts, one after the other, into *out, which is freed with memory_free.
bool deflate_pack(const char *function, const void *const *part, const size_t *bytes, int parts, char **out,
                  size_t *out_bytes);
uint32_t deflate_crc(uint32_t crc, const void *data, size_t bytes); // of zip, without zlib; 0 to begin

#endif
