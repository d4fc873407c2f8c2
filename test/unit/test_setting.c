// test_setting.c - src/base: settings, the warnings about invalid ones, and where these are reported.

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct heard {
    int lines;
    zl_log_level level;
    char line[100];
};

static void hear(zl_log_level level, const char *line, void *context) {
    struct heard *heard = context;
    heard->lines++;
    heard->level = level;
    snprintf(heard->line, sizeof heard->line, "%s", line);
}

static int64_t number_for(const char *text) {
    test_setenv("ZL_CACHE_SIZE", text);
    int64_t number = setting_number(SETTING_CACHE_SIZE);
    test_setenv("ZL_CACHE_SIZE", NULL);
    return number;
}

TEST(setting_number) {
    const int64_t fallback = 1 << 30;
    struct heard heard = {0};
    zl_set_log(hear, &heard);
    CHECK_EQ_INT(number_for("123"), 123);
    CHECK_EQ_INT(number_for("-5"), -5);
    CHECK_EQ_INT(number_for("0"), 0);
    CHECK_EQ_INT(number_for("3k"), 3 << 10);
    CHECK_EQ_INT(number_for(" 2M "), 2 << 20);
    CHECK_EQ_INT(number_for("4g"), (int64_t)4 << 30);
    CHECK_EQ_INT(number_for(""), fallback);
    CHECK_EQ_INT(heard.lines, 0);
    CHECK_EQ_INT(number_for("k"), fallback);
    CHECK_EQ_INT(number_for("1x"), fallback);
    CHECK_EQ_INT(number_for("1kk"), fallback);
    CHECK_EQ_INT(number_for("99999999999999999999"), fallback);
    CHECK_EQ_INT(number_for("9999999999999999g"), fallback);
    CHECK_EQ_INT(setting_number(SETTING_CACHE_SIZE), fallback);
    CHECK_EQ_INT(setting_number(SETTING_CC), 0); // neither the value nor the default is a number
    CHECK_EQ_INT(setting_number_or(SETTING_CC, 7), 7);
    CHECK_EQ_INT(heard.lines, 1); // only the first warning is reported
    CHECK_HAS(heard.line, "ZL_CACHE_SIZE=k: a number such as 16, 500m or 2g is expected");
    zl_set_log(NULL, NULL);
}

static bool flag_for(const char *name, enum setting which, const char *text) {
    test_setenv(name, text);
    bool flag = setting_flag(which);
    test_setenv(name, NULL);
    return flag;
}

TEST(setting_flag) {
    const char *const yes[] = {"1", "true", "Yes", "ON"}, *const no[] = {"0", "false", "NO", "off"};
    for (int i = 0; i < 4; i++) {
        CHECK(flag_for("ZL_NO_FALLBACK", SETTING_NO_FALLBACK, yes[i]));
        CHECK(!flag_for("ZL_FUSE", SETTING_FUSE, no[i]));
    }
    struct heard heard = {0};
    zl_set_log(hear, &heard);
    CHECK(flag_for("ZL_FUSE", SETTING_FUSE, ""));
    CHECK_EQ_INT(heard.lines, 0);
    CHECK(flag_for("ZL_FUSE", SETTING_FUSE, "perhaps"));
    CHECK(!flag_for("ZL_NO_FALLBACK", SETTING_NO_FALLBACK, "perhaps"));
    CHECK(!flag_for("ZL_NO_FALLBACK", SETTING_NO_FALLBACK, "perhaps"));
    CHECK_EQ_INT(heard.lines, 2);
    CHECK_HAS(heard.line, "ZL_NO_FALLBACK=perhaps: 1 or 0 is expected");
    zl_set_log(NULL, NULL);
}

TEST(setting_rows) {
    int count;
    const struct setting_row *rows = setting_rows(&count);
    CHECK_EQ_INT(count, SETTING_COUNT);
    for (int i = 0; i < count; i++) {
        const char *name = NULL, *fallback = NULL, *doc = NULL;
        CHECK(zl_setting(i, &name, &fallback, &doc));
        CHECK_STR(name, rows[i].name);
        CHECK(!strncmp(name, "ZL_", 3) && fallback && doc && *doc);
    }
    CHECK(zl_setting(0, NULL, NULL, NULL));
    CHECK(!zl_setting(count, NULL, NULL, NULL) && !zl_setting(-1, NULL, NULL, NULL));
    test_setenv("ZL_CC", "my-cc");
    CHECK_STR(setting_text(SETTING_CC), "my-cc");
    test_setenv("ZL_CC", NULL);
    CHECK_STR(setting_text(SETTING_CC), "cc");
}

TEST(log_to_callback) {
    struct heard heard = {0};
    zl_set_log(hear, &heard);
    zl_set_log_level(ZL_LOG_INFO);
    log_line(ZL_LOG_DEBUG, "too much");
    CHECK_EQ_INT(heard.lines, 0);
    log_line(ZL_LOG_INFO, "%d plans", 3);
    CHECK_EQ_INT(heard.lines, 1);
    CHECK_EQ_INT(heard.level, ZL_LOG_INFO);
    CHECK_STR(heard.line, "3 plans");
    zl_set_log_level(ZL_LOG_NONE);
    log_line(ZL_LOG_ERROR, "unheard");
    CHECK_EQ_INT(heard.lines, 1);
    zl_set_log(NULL, NULL);
    zl_set_log_level(ZL_LOG_WARN);
}
