// price.c - the machines that SkyPilot would rent, and their price: the row that a dry run marks in its
// table.

#include "cloud.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char chosen[] = "\xe2\x9c\x94"; // the check mark

// Removes the escape sequences of terminal colours, in place.
static void strip_escapes(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        if (at[0] == '\033' && at[1] == '[') {
            at += 2 + strspn(at + 2, "0123456789;");
            at += *at != 0;
        } else {
            *to++ = *at++;
        }
    }
    *to = 0;
}

// Reads a row of the table: INFRA INSTANCE vCPUs Mem GPUS COST and the mark. INFRA contains a space, and ends
// with a parenthesis or before two spaces.
static bool read_row(const char *begin, const char *end, struct cloud_price *out) {
    char line[1024], *word[32], *rest = NULL;
    int words = 0;
    begin += strspn(begin, " ");
    snprintf(line, sizeof line, "%.*s", (int)(end - begin), begin);
    const char *close = strchr(line, ')'), *gap = strstr(line, "  ");
    size_t len = close && (!gap || close < gap) ? (size_t)(close - line) + 1 : gap ? (size_t)(gap - line) : 0;
    snprintf(out->where, sizeof out->where, "%.*s", (int)len, line);
    for (char *w = strtok_r(line + len, " ", &rest); w && words < 32; w = strtok_r(NULL, " ", &rest))
        word[words++] = w;
    char *number_end;
    out->per_hour = words > 1 ? strtod(word[words - 1], &number_end) : 0;
    out->known = words > 1 && !*number_end && out->per_hour >= 0;
    snprintf(out->what, sizeof out->what, "%s", words > 1 ? word[words - 2] : "");
    return out->known;
}

static void read_table(const char *text, struct cloud_price *out) {
    const char *mark = strstr(text, chosen);
    const char *begin = mark;
    while (begin && begin > text && begin[-1] != '\n')
        begin--;
    if (mark && !read_row(begin, mark, out))
        *out = (struct cloud_price){.known = false};
}

int cloud_plan(const struct cloud_task *t, const char *path, char **output) {
    struct cloud_words w = {.count = 0};
    const char *words[] = {"sky", "launch", "--dryrun", "-y", "-c", t->name, path};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cloud_add(&w, words[i]);
    cloud_add_secrets(&w, t);
    return cloud_sky(&w, output);
}

bool cloud_ask_price(const struct invocation *call, const struct cloud_task *t, const char *path,
                     struct cloud_price *out) {
    char *said = NULL;
    *out = (struct cloud_price){.known = false};
    int code = cloud_plan(t, path, &said);
    if (said)
        strip_escapes(said);
    if (code)
        cli_fail(call, "SkyPilot cannot plan this (code %d):\n%s", code, said ? said : "");
    else if (said)
        read_table(said, out);
    free(said);
    return !code;
}

bool cloud_confirm(const struct invocation *call, const char *question) {
    char answer[16] = "";
    if (cli_option(call, "yes"))
        return true;
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin))
        answer[0] = 0;
    if (answer[0] == 'y' || answer[0] == 'Y')
        return true;
    cli_fail(call, "not confirmed: nothing is done; --yes confirms beforehand");
    return false;
}

bool cloud_confirm_price(const struct invocation *call, const struct cloud_task *t,
                         const struct cloud_price *p) {
    double most = -1;
    char price[64] = "SkyPilot knows no price";
    if (!cli_number(call, "max-price", 0, 1e6, &most))
        return false;
    if (p->known)
        snprintf(price, sizeof price, "$%.2f per hour", p->per_hour);
    fprintf(stderr, "%s: ", t->name);
    if (p->known)
        fprintf(stderr, "%s at %s, ", p->what, p->where);
    if (t->nodes > 1)
        fprintf(stderr, "%d nodes, ", t->nodes);
    fprintf(stderr, "%s%s\n", t->spot ? "which may be taken away, " : "", price);
    if (most >= 0 && !p->known)
        return cli_fail(call, "--max-price %g: SkyPilot knows no price", most), false;
    if (most >= 0 && p->per_hour > most)
        return cli_fail(call, "$%.2f per hour is more than --max-price %g", p->per_hour, most), false;
    return cloud_confirm(call, "Launch?");
}

// Converts "GCP (us-east5-b)" to gcp/*/us-east5-b: zones of GCP end with a letter. Other clouds show regions.
bool cloud_stay(const struct invocation *call, struct cloud_task *t, const struct cloud_price *p) {
    char cloud[CLOUD_NAME], place[CLOUD_NAME];
    int end = 0;
    bool is_place =
        sscanf(p->where, "%127[A-Za-z0-9] (%127[A-Za-z0-9_.:@-])%n", cloud, place, &end) == 2 && end;
    if (!is_place && t->infra && strchr(t->infra, '/'))
        return true; // it has a region already
    if (!is_place || p->where[end])
        return cli_fail(
                   call,
                   "--max-price: no machines can be asked for at '%s' alone: name a cloud with a region by "
                   "--infra, as in gcp/us-east5",
                   p->where),
               false;
    for (char *c = cloud; *c; c++)
        *c |= 0x20 * (*c >= 'A' && *c <= 'Z');
    size_t len = strlen(place);
    bool zone = !strcmp(cloud, "gcp") && len > 2 && place[len - 2] == '-';
    snprintf(t->place, sizeof t->place, "%.20s/%s%.100s", cloud, zone ? "*/" : "", place);
    return true;
}
