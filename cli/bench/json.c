// json.c - functions for JSON that model/text does not have: copying texts, and searching lists.

#include "bench.h"

#include <string.h>

#include "cli.h"

void bench_json_copy(text_json_value object, const char *key, bool lines, char *out, size_t bytes) {
    const char *text = text_json_text_of(object, key);
    size_t len = strlen(text);
    if (len > bytes - 1)
        for (len = bytes - 1; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--; // does not cut a character
    memcpy(out, text, len);
    out[len] = 0;
    cli_clean(out, lines);
}

bool bench_json_lists(text_json_value list, const char *word) {
    for (int i = 0; i < text_json_count(list); i++) {
        const char *item = text_json_text(text_json_at(list, i));
        if (item && !strcmp(item, word))
            return true;
    }
    return false;
}
