// test_fuzz_text.c - damaged tokenizers, rank files and chat templates: bytes are changed, removed or
// duplicated, or the file is truncated.
//
// Each is rejected with an error that names the file, or opens, and then encodes, decodes and renders without
// a crash, a leak or a hang.

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "text/text.h"

static char error[1024];

static const char small_tokenizer[] =
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 6, \"content\": \"<x>\", \"special\": true, "
    "\"lstrip\": true, \"rstrip\": true, "
    "\"single_word\": true, \"normalized\": false}, {\"id\": 7, \"content\": \"caf\xc3\xa9\", "
    "\"normalized\": true}], "
    "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
    "[{\"type\": \"Split\", "
    "\"pattern\": {\"String\": \"b\"}, \"behavior\": \"MergedWithPrevious\", \"invert\": false}, {\"type\": "
    "\"Digits\", "
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": "
    "true}]}, \"post_processor\": "
    "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\", \"type_id\": 0}}, "
    "{\"Sequence\": {\"id\": \"A\", "
    "\"type_id\": 0}}], \"special_tokens\": {\"<x>\": {\"ids\": [6]}}}, \"decoder\": {\"type\": "
    "\"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
    "\"unk_token\": \"a\", \"fuse_unk\": true, \"ignore_merges\": true, \"vocab\": {\"a\": 0, \"b\": 1, "
    "\"\xc4\xa0\": 2, \"ab\": 3, \"aba\": 4, \"\xc3\x83\": 5}, "
    "\"merges\": [\"a b\", [\"ab\", \"a\"]]}}";
static const char small_ranks[] = "YQ== 0\nYg== 1\nYWI= 2\nYWJh 3\n";
static const char small_template[] =
    "{%- macro f(a, b=2) -%}{{ a ~ b }}{%- endmacro -%}{% set ns = namespace(n=0) %}{# c #}\n{% for m in "
    "messages if m.role != 'tool' -%}\n"
    "  {% if loop.first and not (m.content is none) %}{{ m['content'][1:-1:2] | trim | upper }}{% elif m.x "
    "is defined %}{% raw %}{{ }}{% endraw %}"
    "{% else %}{{ {'k': [1, 2.5, (3,)], 'z': none} | tojson(indent=2) }}{% break %}{% endif %}\n{% set ns.n "
    "= ns.n + loop.index ** 2 // 3 %}"
    "{{ f(m.role, b='x\\n\\u00e9'.split(',')|join) }}\n{% endfor %}{{ ns.n if ns.n > 1 else "
    "range(5)|list|map('string')|join('-') }}";

static size_t damage(char *data, size_t bytes, size_t cap) {
    static const char pieces[] = "{}[]()|%\"',:.-+0123456789eE\\ \n\x80\xff\xc3\xa9~*/<>=_abn";
    for (int64_t i = test_between(1, 4); i > 0 && bytes > 2; i--) {
        size_t at = (size_t)test_between(0, (int64_t)bytes - 1), count = (size_t)test_between(1, 12);
        count = count < bytes - at ? count : bytes - at;
        switch (test_between(0, 4)) {
        case 0: data[at] = pieces[test_between(0, sizeof pieces - 2)]; break;
        case 1: data[at] = (char)test_between(0, 255); break;
        case 2:
            memmove(data + at, data + at + count, bytes - at - count);
            bytes -= count;
            break;
        case 3:
            if (bytes + count <= cap) {
                memmove(data + at + count, data + at, bytes - at);
                bytes += count;
            }
            break;
        default: bytes = test_between(0, 9) ? bytes : at; break;
        }
    }
    return bytes;
}

static void use(text_tokenizer t) {
    static const char text[] = " abab <x> caf\xc3\xa9 cafe\xcc\x81 a1b2\n'\xff s abc   ";
    struct text_ids ids = {0};
    struct text_encoder *e = text_encoder_new(t, error, sizeof error);
    struct text_encode_options how = {.add_special = true};
    struct text_decoder d = {.tokenizer = t};
    char *out = NULL;
    size_t bytes = 0, cap = 0;
    if (e && text_encode(e, text, sizeof text - 1, &how, &ids, error, sizeof error))
        for (size_t i = 0; i < ids.count; i++)
            CHECK(text_decode(&d, ids.id[i], &out, &bytes, &cap, error, sizeof error));
    text_encoder_free(e);
    free(ids.id);
    free(out);
}

static void try_file(const char *name, const char *whole, size_t bytes) {
    char data[4096], path[512];
    memcpy(data, whole, bytes);
    bytes = damage(data, bytes, sizeof data);
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    FILE *file = fopen(path, "wb");
    REQUIRE(file);
    fwrite(data, 1, bytes, file);
    fclose(file);
    error[0] = 0;
    text_tokenizer t =
        text_tokenizer_open(path, &(struct text_open_options){.pattern = "qwen2"}, error, sizeof error);
    if (t)
        use(t);
    else if (!CHECK_HAS(error, path))
        test_note("%.*s", (int)bytes, data);
    text_tokenizer_close(t);
}

static int rounds(int quick) {
    return test_long() ? 1000000 : quick;
}

TEST(damaged_tokenizers) {
    for (int i = 0; i < rounds(600); i++)
        try_file("a.json", small_tokenizer, sizeof small_tokenizer - 1);
}

TEST(damaged_rank_files) {
    for (int i = 0; i < rounds(200); i++)
        try_file("a.tiktoken", small_ranks, sizeof small_ranks - 1);
}

TEST(damaged_templates) {
    static const char variables[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"abcdef\"}, "
                                    "{\"role\": \"tool\", \"content\": null}, {\"role\": \"x\"}]}";
    text_json_value json = text_json_parse(variables, sizeof variables - 1, "variables", error, sizeof error);
    REQUIRE(json);
    for (int i = 0; i < rounds(1500); i++) {
        char data[4096];
        memcpy(data, small_template, sizeof small_template);
        size_t bytes = damage(data, sizeof small_template - 1, sizeof data), out_bytes;
        error[0] = 0;
        struct text_template *t = text_template_new(data, bytes, "a.jinja", error, sizeof error);
        char *text =
            t ? text_render(t, &(struct text_render_options){.variables = {json}, .most_steps = 20000},
                            &out_bytes, error, sizeof error)
              : NULL;
        if (!text && !CHECK_HAS(error, "a.jinja:"))
            test_note("%.*s", (int)bytes, data);
        free(text);
        text_template_free(t);
    }
    text_json_free(json);
}
