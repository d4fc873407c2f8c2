// setting.c - environment variables, each a row of settings.def. A variable set to nothing counts as not set.

#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

static const struct setting_row rows[] = {
#define SETTING(NAME, fallback, doc) {"ZL_" #NAME, fallback, doc},
#include "base/settings.def"
};

const struct setting_row *setting_rows(int *count) {
    *count = COUNT(rows);
    return rows;
}

const char *setting_text(enum setting which) {
    const char *value = getenv(rows[which].name);
    return value && *value ? value : rows[which].fallback;
}

void setting_refuse(enum setting which, const char *expected) {
    static atomic_bool said[SETTING_COUNT];
    if (!atomic_exchange(&said[which], true))
        log_line(ZL_LOG_WARN, "%s=%s: %s is expected; as if it were not set", rows[which].name,
                 setting_text(which), expected);
}

static bool is_set(enum setting which) {
    return setting_text(which) != rows[which].fallback;
}

static bool parse_flag(const char *text, bool *flag) {
    static const char *const words[][4] = {{"0", "false", "no", "off"}, {"1", "true", "yes", "on"}};
    for (int value = 0; value < 2; value++)
        for (size_t i = 0; i < COUNT(words[value]); i++)
            if (!strcasecmp(text, words[value][i])) {
                *flag = value;
                return true;
            }
    return false;
}

bool setting_flag(enum setting which) {
    bool flag = false;
    if (parse_flag(setting_text(which), &flag))
        return flag;
    if (is_set(which))
        setting_refuse(which, "1 or 0");
    parse_flag(rows[which].fallback, &flag);
    return flag;
}

static int64_t unit_of(char letter) {
    switch (tolower((unsigned char)letter)) {
    case 'k': return 1 << 10;
    case 'm': return 1 << 20;
    case 'g': return 1 << 30;
    default: return 0;
    }
}

static bool parse_number(const char *text, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE)
        return false;
    int64_t unit = unit_of(*end);
    end += unit != 0;
    while (isspace((unsigned char)*end))
        end++;
    int64_t product;
    if (*end || __builtin_mul_overflow((int64_t)value, unit ? unit : 1, &product))
        return false;
    *number = product;
    return true;
}

int64_t setting_number_or(enum setting which, int64_t otherwise) {
    int64_t number = otherwise;
    if (parse_number(setting_text(which), &number))
        return number;
    if (is_set(which))
        setting_refuse(which, "a number such as 16, 500m or 2g");
    parse_number(rows[which].fallback, &number);
    return number;
}

int64_t setting_number(enum setting which) {
    return setting_number_or(which, 0);
}

bool zl_setting(int index, const char **name, const char **fallback, const char **doc) {
    if (index < 0 || index >= SETTING_COUNT)
        return false;
    if (name)
        *name = rows[index].name;
    if (fallback)
        *fallback = rows[index].fallback;
    if (doc)
        *doc = rows[index].doc;
    return true;
}
