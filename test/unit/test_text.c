// test_text.c - JSON, tokenizers and chat templates of model/text, on small examples made here.
// test/scripts/text_oracles.sh compares real ones with their own programs.

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "text/text.h"

static char error[1024];

// JSON ------------------------------------------------------------------------------------------------------

static text_json_value parse(const char *text) {
    error[0] = 0;
    return text_json_parse(text, strlen(text), "a.json", error, sizeof error);
}

TEST(json_values) {
    text_json_value root = parse("{\"a\": [1, -2.5e1, true, null, \"\\u00e9\\ud83d\\ude00\\n\"], \"b\": "
                                 "{\"c\": 9007199254740993}, \"a\": 3}");
    REQUIRE(root);
    const char *key;
    text_json_value list = text_json_member(root, 0, &key);
    CHECK_STR(key, "a");
    CHECK_EQ_INT(text_json_count(list), 5);
    CHECK_EQ_F64(text_json_number(text_json_at(list, 1)), -25);
    CHECK(text_json_true(text_json_at(list, 2)) && text_json_is_null(text_json_at(list, 3)) &&
          !text_json_at(list, 5));
    CHECK_STR(text_json_text(text_json_at(list, 4)), "\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK_EQ_INT(text_json_integer(text_json_get(root, "a")), 3); // the last member of that name
    CHECK(text_json_is_integer(text_json_get(text_json_get(root, "b"), "c")));
    CHECK_EQ_INT(text_json_integer(text_json_get(text_json_get(root, "b"), "c")), INT64_C(9007199254740993));
    text_json_free(root);
}

TEST(json_refuses_with_line_and_column) {
    static const char *const bad[] = {"",        "{",           "[1,]",     "{\"a\" 1}", "01",  "1.",
                                      "\"\\x\"", "\"\\ud800\"", "\"\x01\"", "\"\xff\"",  "nul", "1 2",
                                      "[1}",     "\"a",         "-",        "1e999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        CHECK(!parse(bad[i]));
        CHECK_HAS(error, "a.json:1:");
    }
    CHECK(!parse("[\n 1,\n  x]"));
    CHECK_HAS(error, "a.json:3:3: ");
    char deep[2000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    CHECK(!parse(deep));
    CHECK_HAS(error, "levels");
}

// Tokenizers ------------------------------------------------------------------------------------------------

// Writes a rank file: all bytes, then these tokens.
static void write_ranks(const char *path, const char *const *tokens, int count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    FILE *file = fopen(path, "w");
    for (int rank = 0; file && rank < 256 + count; rank++) {
        unsigned char byte = (unsigned char)rank;
        const unsigned char *data = rank < 256 ? &byte : (const unsigned char *)tokens[rank - 256];
        size_t bytes = rank < 256 ? 1 : strlen(tokens[rank - 256]);
        for (size_t i = 0; i < bytes; i += 3) {
            unsigned bits = (unsigned)data[i] << 16 | (i + 1 < bytes ? (unsigned)data[i + 1] << 8 : 0) |
                            (i + 2 < bytes ? data[i + 2] : 0);
            for (int k = 0; k < 4; k++)
                fputc((size_t)k > bytes - i ? '=' : digits[bits >> (18 - 6 * k) & 63], file);
        }
        fprintf(file, " %d\n", rank);
    }
    if (file)
        fclose(file);
}

static const char *const few[] = {"ab", "abc", " a", "\xc3\xa9", "he", "ll", "hell", "hello"};

static text_tokenizer open_ranks(const char *pattern) {
    static char path[512];
    snprintf(path, sizeof path, "%s/few.tiktoken", test_folder());
    write_ranks(path, few, COUNT(few));
    return text_tokenizer_open(path, &(struct text_open_options){.pattern = pattern}, error, sizeof error);
}

static struct text_ids encode(text_tokenizer t, const char *text, size_t bytes) {
    struct text_ids ids = {0};
    struct text_encoder *e = text_encoder_new(t, error, sizeof error);
    CHECK(e && text_encode(e, text, bytes, NULL, &ids, error, sizeof error));
    text_encoder_free(e);
    return ids;
}

TEST(ranks_merge_by_rank) {
    text_tokenizer t = open_ranks("qwen2");
    REQUIRE(t);
    struct text_ids ids = encode(t, "abcd hello 12", 13);
    static const int32_t want[] = {257, 'd', ' ', 263, ' ', '1', '2'};
    CHECK_EQ_INT(ids.count, COUNT(want));
    for (size_t i = 0; i < COUNT(want) && i < ids.count; i++)
        CHECK_EQ_INT(ids.id[i], want[i]);
    free(ids.id);
    CHECK_EQ_INT(text_token_id(t, "hello"), 263);
    CHECK_EQ_INT(text_token_id(t, "nothing"), -1);
    text_tokenizer_close(t);
}

TEST(a_long_piece_is_merged_as_a_short_one) {
    text_tokenizer t = open_ranks("qwen2");
    REQUIRE(t);
    size_t bytes = 200000;
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        text[i] = "abc"[i % 3];
    struct text_ids ids = encode(t, text, bytes / 3 * 3);
    CHECK_EQ_INT(ids.count, bytes / 3);
    for (size_t i = 0; i < ids.count; i++)
        if (!CHECK_EQ_INT(ids.id[i], 257))
            break;
    free(ids.id);
    free(text);
    text_tokenizer_close(t);
}

TEST(any_bytes_come_back) {
    text_tokenizer t = open_ranks("gpt2");
    REQUIRE(t);
    for (int round = 0; round < 200; round++) {
        char text[64];
        size_t bytes = (size_t)test_between(0, sizeof text), joined = 0;
        for (size_t i = 0; i < bytes; i++)
            text[i] =
                (char)(test_between(0, 2) ? "ab \xc3\xa9\n'sh"[test_between(0, 8)] : test_between(0, 255));
        struct text_ids ids = encode(t, text, bytes);
        for (size_t i = 0; i < ids.count; i++) {
            size_t length;
            const char *part = text_token_text(t, ids.id[i], &length);
            CHECK(part && joined + length <= bytes && !memcmp(text + joined, part, length));
            joined += length;
        }
        CHECK_EQ_INT(joined, bytes);
        free(ids.id);
    }
    text_tokenizer_close(t);
}

TEST(decoding_holds_parts_of_characters_back) {
    text_tokenizer t = open_ranks("qwen2");
    REQUIRE(t);
    struct text_decoder d = {.tokenizer = t};
    char *out = NULL;
    size_t bytes = 0, cap = 0;
    static const int ids[] = {0xf0, 0x9f, 0x98, 0x80, 0xe2, 'x', 0xc3, 0xc3, 0xa9, 0xe2, 0x82};
    static const size_t after[] = {0, 0, 0, 4, 4, 8, 8, 11, 13, 13, 13};
    for (size_t i = 0; i < COUNT(ids); i++) {
        CHECK(text_decode(&d, ids[i], &out, &bytes, &cap, error, sizeof error));
        CHECK_EQ_INT(bytes, after[i]);
    }
    CHECK(text_decode_end(&d, &out, &bytes, &cap, error, sizeof error));
    CHECK_STR(out, "\xf0\x9f\x98\x80\xef\xbf\xbdx\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd");
    CHECK(!text_decode(&d, 9999, &out, &bytes, &cap, error, sizeof error));
    CHECK_HAS(error, "no token 9999");
    free(out);
    text_tokenizer_close(t);
}

// An expression that is none of the known ones runs by PCRE2. Bytes that are not UTF-8 are part of no match,
// and a long text takes linear time.
TEST(expressions_split_long_texts_of_any_bytes) {
    enum { TIMES = 50000 };
    static const char part[] = "ab ab\xff";
    static const int32_t want[] = {256, ' ', 256, 0xff};
    text_tokenizer t = open_ranks("[a-z]+");
    if (!t && strstr(error, "libpcre2"))
        SKIP("libpcre2 is not installed");
    REQUIRE(t);
    char *text = malloc(TIMES * (sizeof part - 1));
    REQUIRE(text);
    for (int i = 0; i < TIMES; i++)
        memcpy(text + i * (sizeof part - 1), part, sizeof part - 1);
    struct text_ids ids = encode(t, text, TIMES * (sizeof part - 1));
    CHECK_EQ_INT(ids.count, TIMES * COUNT(want));
    for (size_t i = 0; i < ids.count; i++)
        if (!CHECK_EQ_INT(ids.id[i], want[i % COUNT(want)]))
            break;
    free(ids.id);
    free(text);
    text_tokenizer_close(t);
}

TEST(spaces_behind_an_added_token_are_no_token_again) {
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 3, \"content\": \"\\n\", \"lstrip\": true, \"rstrip\": true}], "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": "
        "\"ByteLevel\"}, \"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}}";
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer.json", test_folder());
    CHECK(zl_write_file(path, json, sizeof json - 1));
    text_tokenizer t = text_tokenizer_open(path, NULL, error, sizeof error);
    if (!CHECK(t))
        test_note("%s", error);
    REQUIRE(t);
    struct text_ids ids = encode(t, "\n\nab", 4);
    CHECK(ids.count == 2 && ids.id[0] == 3 && ids.id[1] == 2);
    free(ids.id);
    text_tokenizer_close(t);
}

// Without a key that says so, texts of Llama 3's family begin with a token, as in llama.cpp.
TEST(gguf_texts_of_llama_3_begin_with_a_token) {
    static const zl_text tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"<s>", 3}}, merges[] = {{"a b", 3}},
                         model = {"gpt2", 4}, pre = {"llama-bpe", 9};
    const zl_metadata notes[] = {
        {.name = "tokenizer.ggml.model", .text = &model, .texts = 1},
        {.name = "tokenizer.ggml.pre", .text = &pre, .texts = 1},
        {.name = "tokenizer.ggml.tokens", .text = tokens, .texts = COUNT(tokens), .is_list = true},
        {.name = "tokenizer.ggml.merges", .text = merges, .texts = 1, .is_list = true},
        {.name = "tokenizer.ggml.bos_token_id", .array = zl_scalar_int(3)},
    };
    char path[512];
    snprintf(path, sizeof path, "%s/a.gguf", test_folder());
    zl_file *file = zl_file_new();
    for (size_t i = 0; i < COUNT(notes); i++)
        CHECK(zl_file_add_metadata(file, &notes[i]));
    CHECK(zl_save_gguf(path, file));
    zl_file_free(file);
    text_tokenizer t = text_tokenizer_open(path, NULL, error, sizeof error);
    if (!CHECK(t))
        test_note("%s", error);
    REQUIRE(t);
    struct text_ids ids = {0};
    struct text_encoder *e = text_encoder_new(t, error, sizeof error);
    struct text_encode_options how = {.add_special = true};
    CHECK(e && text_encode(e, "ab", 2, &how, &ids, error, sizeof error));
    CHECK(ids.count == 2 && ids.id[0] == 3 && ids.id[1] == 2);
    text_encoder_free(e);
    free(ids.id);
    text_tokenizer_close(t);
}

TEST(a_rank_file_needs_a_pattern) {
    CHECK(!open_ranks(NULL));
    CHECK_HAS(error, "qwen2, qwen35, llama3, gpt2");
    CHECK(!text_tokenizer_open("/nothing/here", NULL, error, sizeof error));
    CHECK_HAS(error, "cannot read /nothing/here");
}

TEST(errors_name_the_field) {
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"{}", "model.type"},
        {"{\"model\": {\"type\": \"WordPiece\"}}", "'WordPiece': only BPE"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"spell\": 1}}", "model.spell is not known"},
        {"{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", "'a' has the id -1"},
        {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", "model.vocab['b']"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", "model.merges[0]: 'b'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}}", "model.dropout is 0.1"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"added_tokens\": [{}]}", "added_tokens[0]"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"normalizer\": {\"type\": \"Lowercase\"}}",
         "'Lowercase'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": "
         "\"Whitespace\"}}",
         "'Whitespace'"},
    };
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer.json", test_folder());
    for (size_t i = 0; i < COUNT(bad); i++) {
        FILE *file = fopen(path, "w");
        fputs(bad[i].json, file);
        fclose(file);
        CHECK(!text_tokenizer_open(test_folder(), NULL, error, sizeof error));
        CHECK_HAS(error, path);
        CHECK_HAS(error, bad[i].says);
    }
}

// Templates -------------------------------------------------------------------------------------------------

static char *render(const char *source, const char *variables, int64_t steps) {
    text_json_value json = parse(variables);
    struct text_template *t = text_template_new(source, strlen(source), "t", error, sizeof error);
    size_t bytes;
    char *text = t && json
                     ? text_render(t, &(struct text_render_options){.variables = {json}, .most_steps = steps},
                                   &bytes, error, sizeof error)
                     : NULL;
    text_template_free(t);
    text_json_free(json);
    return text;
}

TEST(templates_render) {
    static const struct {
        const char *source, *text;
    } cases[] = {
        {"{% for m in ms %}\n  {% if loop.first %}\n[{{ m.role }}]\n  {% endif %}\n{% endfor %}\nend\n",
         "[user]\nend"},
        {"{%- set n = namespace(c=0) -%} {%- for m in ms %}{% set n.c = n.c + m.content|length %}{% endfor "
         "-%} {{ n.c }}",
         "8"},
        {"{{ ms[::-1][0].content.split(' ')[-1] }} {{ ms|map(attribute='role')|join(',') }}",
         "there user,assistant"},
        {"{{ ms[0]|tojson }}", "{\"role\": \"user\", \"content\": \"\xc3\xa9\"}"},
        {"{{ 12345678901234567 - many }} {{ many }}", "1 12345678901234566"},
        {"{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(b=3, a=0) }}", "1-2 0-3"},
        {"{{ -7 // 2 }} {{ 7 % -3 }} {{ 1e16 }} {{ 0.1 + 0.2 }} {{ [none, 'a\\'b'] }} {{ 'x' if nope is "
         "defined }}|",
         "-4 -2 1e+16 0.30000000000000004 [None, \"a'b\"] |"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = render(cases[i].source,
                            "{\"many\": 12345678901234566, \"ms\": [{\"role\": \"user\", \"content\": "
                            "\"\\u00e9\"}, {\"role\": "
                            "\"assistant\", \"content\": \"x there\"}]}",
                            0);
        if (!CHECK_STR(text, cases[i].text))
            test_note("%s: %s", cases[i].source, error);
        free(text);
    }
}

TEST(template_errors_have_line_and_column) {
    static const struct {
        const char *source, *says;
    } cases[] = {
        {"a\n{% if x %}", "t:2:11: the template ends inside a block"},
        {"\n  {{ 1 + }}", "t:2:10: an expression must stand here"},
        {"{{ nope.x }}", "t:1:9: 'nope' is undefined"},
        {"{{ 'a' + 1 }}", "'+' does not take 'str' and 'int'"},
        {"{{ raise_exception('no ' ~ 'way') }}", "the template refuses: no way"},
        {"{{ x|nothing }}", "no filter 'nothing'"},
        {"{% include 'x' %}", "no statement 'include'"},
        {"{{ xs.append(1) }}", "not allowed"},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "levels"},
        {"{{ 'aaaaaaaaaaaaaaaa' * 99999999 }}", "MiB"},
        {"{# x", "a comment has no end"},
        {"{{ 9223372036854775807 + 1 }}", "more than 64 bits"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = render(cases[i].source, "{\"xs\": []}", 100000);
        CHECK(!text);
        if (!CHECK_HAS(error, cases[i].says))
            test_note("%s", cases[i].source);
        free(text);
    }
}
