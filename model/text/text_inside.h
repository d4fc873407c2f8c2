// text_inside.h - declarations that the files of model/text share.

#ifndef TEXT_INSIDE_H
#define TEXT_INSIDE_H

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// text_memory.c ---------------------------------------------------------------------------------------------

// Memory that is freed as a whole. Zero-initialised it is empty.
struct text_arena {
    struct text_arena_block *blocks;
    size_t left; // bytes of the newest block that are free, at its end
};
// Allocates memory that is aligned for any type. Returns NULL if memory runs out.
void *text_arena_get(struct text_arena *a, size_t bytes);
// Copies bytes, with a NUL after them. Returns NULL if memory runs out.
char *text_arena_copy(struct text_arena *a, const void *data, size_t bytes);
// Frees all memory of the arena, which is empty then.
void  text_arena_free(struct text_arena *a);

// A buffer that grows. Zero-initialised it is empty; the caller frees `data` with free.
struct text_buffer {
    char *data;
    size_t bytes, cap;
};
// Appends bytes, with a NUL after them that does not count. Returns false if memory runs out.
bool text_buffer_add(struct text_buffer *b, const void *data, size_t bytes);
// Appends a NUL-terminated text. Returns false if memory runs out.
bool text_buffer_text(struct text_buffer *b, const char *text);
// Reserves room for `bytes` more and a NUL. Returns false if memory runs out.
bool text_buffer_room(struct text_buffer *b, size_t bytes);

// Formats the error message. Returns false.
bool text_fail(char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A table from byte strings to numbers. Keys are not copied.
struct text_map {
    struct text_map_entry {
        const void *key;
        uint32_t bytes, value;
    } *entry;
    uint32_t *slot; // index of an entry, plus 1
    size_t count, cap, slots;
};
enum { TEXT_NONE = -1 };
// Returns a hash of the bytes.
uint64_t text_hash(const void *data, size_t bytes);
// Reserves room for `count` keys in all. Returns false if memory runs out.
bool    text_map_reserve(struct text_map *m, size_t count);
// Sets the value of a key, new or not. Returns false if memory runs out.
bool    text_map_put(struct text_map *m, const void *key, size_t bytes, uint32_t value);
// Returns the value of a key, or TEXT_NONE.
int64_t text_map_get(const struct text_map *m, const void *key, size_t bytes);
// Frees the table, which is empty then.
void    text_map_free(struct text_map *m);

// text_unicode.c --------------------------------------------------------------------------------------------

enum {
    TEXT_LETTER = 1, // \p{L}
    TEXT_MARK = 2,   // \p{M}
    TEXT_NUMBER = 4, // \p{N}
    TEXT_SPACE = 8,  // \s
    TEXT_COMPOSES = 16, // NFC may change it, or join it with what is before
    TEXT_WORD = 32,     // \w
    // normalisation leaves it as it is: the tokenizers that models were trained with do not know it
    TEXT_NEWER = 64,
    TEXT_UNICODE_PAGES = 0x110000 / 128,
};
extern const uint16_t text_unicode_page[TEXT_UNICODE_PAGES];
extern const uint8_t text_unicode_class[][128];

// Returns the number of bytes at the start of data that are UTF-8.
size_t text_utf8_stretch(const char *data, size_t bytes);
// Returns the bytes of the character at `at`; 0 if it is not UTF-8.
int text_utf8_length(const unsigned char *at, const unsigned char *end);
// Writes a character, at most 4 bytes, and returns how many.
int text_utf8_put(char *out, uint32_t code);
#define TEXT_NO_CHARACTER 0xffffffffu
// Returns the bytes of the character at `at`, and sets *code. A byte that is not UTF-8 is one byte with the
// code TEXT_NO_CHARACTER, which has no class.
int text_utf8_get(const unsigned char *at, const unsigned char *end, uint32_t *code);

static inline bool text_is_digit(int c) { return c >= '0' && c <= '9'; }   // in ASCII
static inline bool text_is_letter(int c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

static inline int text_class_of(uint32_t code) {
    return code < 0x110000 ? text_unicode_class[text_unicode_page[code >> 7]][code & 127] : 0;
}
// Returns the bytes of the character at `at`, which is before `end`, and sets *class.
static inline int text_next(const unsigned char *at, const unsigned char *end, int *class) {
    if (*at < 0x80) {
        *class = text_unicode_class[0][*at];
        return 1;
    }
    uint32_t code;
    int bytes = text_utf8_get(at, end, &code);
    *class = text_class_of(code);
    return bytes;
}

// Returns a letter in upper or lower case, by utf8proc beyond ASCII; the same code if it has no such case
// or the library is not installed.
uint32_t text_in_case(uint32_t code, bool upper);

enum text_form { TEXT_AS_IS, TEXT_NFC, TEXT_NFD, TEXT_NFKC, TEXT_NFKD };
// Appends the text in a normal form, by utf8proc where characters may change. Returns false, with an error,
// if that library is not installed or memory runs out.
bool text_normalize(enum text_form form, const char *data, size_t bytes, struct text_buffer *out, char *error,
                    size_t error_bytes);
// Returns whether the text is certainly normal already; false for some texts that are.
bool text_is_normal(enum text_form form, const char *data, size_t bytes);

// text_regex.c: PCRE2, opened at run time -------------------------------------------------------------------

struct text_regex;
// Compiles a pattern, to be freed with text_regex_free. Returns NULL after an error.
struct text_regex *text_regex_new(const char *pattern, char *error, size_t error_bytes);
// Frees a pattern. NULL is allowed.
void text_regex_free(struct text_regex *r);
// Finds the first match from `from` on in a text in UTF-8, which is not checked. Returns 1 if there is one, 0
// if not, -1 after an error. *memory belongs to one thread, is NULL at first, and is freed with
// text_regex_free_memory.
int text_regex_find(const struct text_regex *r, void **memory, const char *text, size_t bytes, size_t from,
                    size_t *start, size_t *end, char *error, size_t error_bytes);
// Frees the memory of text_regex_find. NULL is allowed.
void text_regex_free_memory(void *memory);

// text_split.c: splits texts into the pieces that merges stay within ----------------------------------------

// A function that returns the bytes of the first piece.
typedef size_t (*text_scan)(const unsigned char *at, const unsigned char *end);
struct text_pattern {
    const char *name, *regex;
    text_scan scan;
};
// Finds the hand-coded pattern with that regular expression or of that name; either may be NULL. Returns NULL
// if there is none.
const struct text_pattern *text_pattern_find(const char *regex, const char *name);

enum text_behavior {
    TEXT_ISOLATED,
    TEXT_REMOVED,
    TEXT_MERGED_WITH_PREVIOUS,
    TEXT_MERGED_WITH_NEXT,
    TEXT_CONTIGUOUS
};
struct text_stage {
    text_scan scan;           // every piece that it finds; else
    struct text_regex *regex; // matches and what is between them; else
    const char *literal;      // occurrences and what is between them; else
    size_t literal_bytes;     // 0: a space is put before a text that does not begin with one
    enum text_behavior behavior;
    bool invert;
};
// Returns the bytes of the first piece: one digit, or the text up to the next digit.
size_t text_scan_digits(const unsigned char *at, const unsigned char *end);
// Returns the bytes of the first piece: consecutive digits, or the text up to the next digit.
size_t text_scan_digit_runs(const unsigned char *at, const unsigned char *end);

// text_bpe.c ------------------------------------------------------------------------------------------------

enum { TEXT_MOST_TOKENS = 1 << 24, TEXT_MOST_STAGES = 8 };

struct text_pair { // two neighbours become a token
    uint64_t key;  // left << 32 | right; all ones: free
    uint32_t rank, id;
};
struct text_token {
    const char *data; // what it decodes to
    uint32_t bytes;
    bool there, special, added;
};
struct text_added {
    const char *text;
    uint32_t bytes;
    int id;
    bool single_word, lstrip, rstrip, normalized, special;
};
struct text_added_list { // in the order of their bytes
    const struct text_added **item;
    int count;
    bool first[256]; // whether one begins with that byte
};

struct text_tokenizer {
    char *name; // the file
    struct text_arena arena;
    struct text_token *token; // by id
    int count, room;          // ids are below count
    struct text_pair *pair;
    size_t pairs; // slots, a power of two
    int byte_id[256];   // TEXT_NONE: no token is that byte
    uint64_t *byte_pair; // rank << 32 | id of two bytes; all ones: none
    struct text_map by_bytes; // filled if pieces that are tokens are not merged
    bool whole_pieces;
    int unknown; // TEXT_NONE: a byte without a token is left out
    bool fuse_unknown;
    enum text_form form;
    struct text_stage stage[TEXT_MOST_STAGES];
    int stages;
    struct text_added *added;
    int added_count;
    struct text_added_list raw, normal; // looked for in the text, and in the normalised text
    int *prefix, *suffix;               // ids around a text
    int prefix_count, suffix_count;
    const char *bos, *eos, *pad, *unk;  // texts of tokens; NULL: none
    const char *chat_template;          // NULL: none
};

// Reserves room for `count` pairs in all. Returns false if memory runs out.
bool text_pairs_reserve(struct text_tokenizer *t, size_t count);
// Sets the rank and the id of a pair, for which there is room.
void text_pairs_put(struct text_tokenizer *t, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
// Finishes the tables, after all pairs and tokens. Returns false if memory runs out.
bool text_bpe_finish(struct text_tokenizer *t);
// Makes the pairs of a tokenizer with ranks: all pairs of tokens whose bytes together are a token. Needs
// by_bytes. Returns false if memory runs out.
bool text_bpe_pairs_of_ranks(struct text_tokenizer *t);

struct text_bpe_memory;
// Returns the memory with which one thread encodes, which caches pieces; NULL if memory runs out.
struct text_bpe_memory *text_bpe_memory_new(void);
// Frees that memory. NULL is allowed.
void text_bpe_memory_free(struct text_bpe_memory *m);
// Reserves room for `count` more ids. Returns false if memory runs out.
bool text_ids_room(struct text_ids *ids, size_t count);
// Appends the ids of a piece, merged by rank. Returns false if memory runs out.
bool text_bpe(const struct text_tokenizer *t, struct text_bpe_memory *m, const unsigned char *piece,
              size_t bytes,
              struct text_ids *out);

// text_added.c ----------------------------------------------------------------------------------------------

// Fills in the lists `raw` and `normal`. Returns false after an error.
bool text_added_index(struct text_tokenizer *t, char *error, size_t error_bytes);
struct text_added_visitor {
    bool (*plain)(void *context, const char *data, size_t bytes);
    bool (*token)(void *context, int id);
    void *context;
    bool keep_special; // special tokens are text
};
// Calls `plain` with each stretch between added tokens, and `token` with each added token, in order.
// Returns false as soon as one of them returns false.
bool text_added_split(const struct text_added_list *list, const char *data, size_t bytes,
                      const struct text_added_visitor *v);

// text_open.c, text_open_*.c --------------------------------------------------------------------------------

// Parses a document like text_json_parse, and takes over the text, which malloc allocated and a NUL ends,
// also after an error.
text_json_value text_json_take(char *text, size_t bytes, const char *name, char *error, size_t error_bytes);
// Fills in a tokenizer from a tokenizer.json. Returns false after an error, like the two functions below.
bool text_open_json(struct text_tokenizer *t, text_json_value root, char *error, size_t error_bytes);
// Fills in a tokenizer from the metadata of a GGUF file.
bool text_open_gguf(struct text_tokenizer *t, const char *path, char *error, size_t error_bytes);
// Fills in a tokenizer from the text of a rank file, which is split by `pattern`.
bool text_open_ranks(struct text_tokenizer *t, const char *text, size_t bytes, const char *pattern,
                     char *error, size_t error_bytes);
// Sets the bytes of a token, which are not copied. Returns false, with an error, if the id is out of range.
bool text_set_token(struct text_tokenizer *t, int64_t id, const char *data, size_t bytes, char *error,
                    size_t error_bytes);
// Adds a stage for a pattern, hand-coded if it is a known one, otherwise by PCRE2. Returns false after an
// error.
bool text_add_pattern(struct text_tokenizer *t, const char *regex, char *error, size_t error_bytes);
// Adds a copy of a stage. Returns false, with an error, if there are too many.
bool text_add_stage(struct text_tokenizer *t, const struct text_stage *stage, char *error,
                    size_t error_bytes);
// Decodes a token that is written in the alphabet of byte-level tokenizers to its bytes, at most as many as
// the text has. Returns false if it has other characters.
bool text_bytes_of_alphabet(const char *text, size_t bytes, char *out, size_t *out_bytes);

#endif
