// text_json_write.c - writes a JSON value as text, indented by four spaces as in config.json of transformers
// and MLX.

#include "text_inside.h"

#include <math.h>

void text_json_write_text(FILE *out, const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    fputc('"', out);
    for (int length; at < end; at += length ? length : 1) {
        length = text_utf8_length(at, end);
        if (!length)
            fputs("\xef\xbf\xbd", out);
        else if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < 32 || *at == 127)
            fprintf(out, "\\u%04x", *at);
        else
            fwrite(at, 1, (size_t)length, out);
    }
    fputc('"', out);
}

// Writes the fewest digits that give the same number back, always with a fraction or an exponent, so that it
// stays a float.
static void put_number(FILE *out, double x) {
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    bool whole = true;
    for (const char *c = text; *c; c++)
        whole = whole && ((*c >= '0' && *c <= '9') || *c == '-');
    fprintf(out, "%s%s", text, whole ? ".0" : "");
}

static void put_line(FILE *out, int indent) {
    fprintf(out, "\n%*s", 4 * indent, "");
}

static void put_members(FILE *out, text_json_value value, int indent) {
    bool object = text_json_is_object(value);
    const char *key;
    int count = text_json_count(value);
    fputc(object ? '{' : '[', out);
    for (int i = 0; i < count; i++) {
        text_json_value member = object ? text_json_member(value, i, &key) : text_json_at(value, i);
        fputs(i ? "," : "", out);
        put_line(out, indent + 1);
        if (object) {
            text_json_write_text(out, key, text_json_key_bytes(member));
            fputs(": ", out);
        }
        text_json_write(out, member, indent + 1);
    }
    if (count)
        put_line(out, indent);
    fputc(object ? '}' : ']', out);
}

void text_json_write(FILE *out, text_json_value value, int indent) {
    if (text_json_is_object(value) || text_json_is_list(value))
        put_members(out, value, indent);
    else if (text_json_text(value))
        text_json_write_text(out, text_json_text(value), text_json_bytes(value));
    else if (text_json_is_bool(value))
        fputs(text_json_true(value) ? "true" : "false", out);
    else if (text_json_is_integer(value))
        fprintf(out, "%lld", (long long)text_json_integer(value));
    else if (isfinite(text_json_number(value)))
        put_number(out, text_json_number(value));
    else
        fputs("null", out);
}
