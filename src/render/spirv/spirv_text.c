// spirv_text.c - prints modules as text: one instruction per line, %n for ids, names of opcodes from the
// table that the writer has.

#include "render/spirv/spirv.h"
#include "render/spirv/spirv_module.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    uint16_t number;
    const char *name, *form;
} words[] = {
#define WORD(name, number, form) {number, #name, form},
#include "render/spirv/spirv_words.def"
};

enum { HEADER = 5, MAGIC = 0x07230203 };

static uint32_t word_at(const char *code, size_t at) {
    const unsigned char *b = (const unsigned char *)code + 4 * at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int find(uint32_t number) {
    for (int i = 0; i < (int)COUNT(words); i++)
        if (words[i].number == number)
            return i;
    return -1;
}

// Appends a text that is stored in words, with ? for characters that cannot be printed. Returns the number of
// words.
static size_t put_text(struct text *out, const char *code, size_t at, size_t end) {
    size_t bytes = 0, room = 4 * (end - at);
    text_add(out, " \"");
    for (; bytes < room && code[4 * at + bytes]; bytes++)
        text_add(out, "%c", code[4 * at + bytes] >= ' ' ? code[4 * at + bytes] : '?');
    text_add(out, "\"");
    return bytes / 4 + 1;
}

static void put_operands(struct text *out, const char *form, const char *code, size_t at, size_t end) {
    for (; at < end; form += form[1] != 0) {
        uint32_t word = word_at(code, at);
        switch (*form) {
        case 'r': at++; break;
        case 's': at += put_text(out, code, at, end); break;
        case 't':
        case 'i': text_add(out, " %%%" PRIu32, word), at++; break;
        default: text_add(out, " %" PRIu32, word), at++; break;
        }
    }
}

static void put_line(struct text *out, const char *code, size_t at, size_t end) {
    uint32_t number = word_at(code, at) & 0xffff;
    int which = find(number);
    const char *result = which < 0 ? NULL : strchr(words[which].form, 'r');
    size_t place = result ? at + 1 + (size_t)(result - words[which].form) : end;
    if (place < end)
        text_add(out, "%%%" PRIu32 " = ", word_at(code, place));
    if (which < 0)
        text_add(out, "Op%" PRIu32, number);
    else
        text_add(out, "Op%s", words[which].name);
    put_operands(out, which < 0 ? "n" : words[which].form, code, at + 1, end);
    text_add(out, "\n");
}

bool spirv_disassemble(struct text *out, const char *code, size_t bytes) {
    size_t count = bytes / 4;
    if (bytes % 4 || count < HEADER || word_at(code, 0) != MAGIC)
        return error_false(ZL_ERROR_VALUE, "spirv: this is no module: it does not begin as one");
    text_add(out, "; SPIR-V %" PRIu32 ".%" PRIu32 ", %" PRIu32 " ids\n", word_at(code, 1) >> 16 & 255,
             word_at(code, 1) >> 8 & 255, word_at(code, 3) - 1);
    for (size_t at = HEADER, length; at < count; at += length) {
        length = word_at(code, at) >> 16;
        if (!length || length > count - at)
            return error_false(ZL_ERROR_VALUE, "spirv: word %zu says that %zu words follow", at, length);
        put_line(out, code, at, at + length);
    }
    return true;
}
