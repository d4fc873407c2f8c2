// clusters.c - the clusters that SkyPilot knows, and which of them a command means.

#include "cloud.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/text.h"

static const char kept[] = ".cluster_name";

// What sky says ---------------------------------------------------------------------------------------------

// Returns the JSON list that `sky ARGUMENT... --output json` prints, perhaps after other lines, to be freed
// with text_json_free; NULL if the command fails.
static text_json_value query(const char *const *argument) {
    struct cloud_words w = {.count = 0};
    char *said = NULL, error[256];
    cloud_add(&w, "sky");
    for (; *argument; argument++)
        cloud_add(&w, *argument);
    cloud_add(&w, "--output");
    cloud_add(&w, "json");
    int code = cloud_sky(&w, &said);
    const char *list = said && *said != '[' ? strstr(said, "\n[") : said;
    const char *end = list ? strrchr(list, ']') : NULL;
    text_json_value root =
        end && !code ? text_json_parse(list, (size_t)(end - list) + 1, "sky", error, sizeof error) : NULL;
    free(said);
    return root;
}

static void copy(char *out, size_t bytes, const char *text) {
    snprintf(out, bytes, "%s", text);
    cli_clean(out, false);
}

// Converts "{'tpu-v6e-16': 1}" to tpu-v6e-16, and "{'H100': 8}" to H100:8.
static void read_accelerator(const char *text, char *out) {
    char name[64];
    int count;
    out[0] = 0;
    if (sscanf(text, "{'%63[A-Za-z0-9_-]': %d", name, &count) == 2)
        snprintf(out, CLOUD_NAME, cloud_is_tpu(name) ? "%s" : "%s:%d", name, count);
}

static void read_cluster(text_json_value from, struct cloud_cluster *c) {
    *c = (struct cloud_cluster){.per_hour = -1};
    copy(c->name, sizeof c->name, text_json_text_of(from, "name"));
    copy(c->status, sizeof c->status, text_json_text_of(from, "status"));
    copy(c->resources, sizeof c->resources, text_json_text_of(from, "resources_str"));
    read_accelerator(text_json_text_of(from, "accelerators"), c->accelerator);
    int64_t nodes = text_json_integer(text_json_get(from, "nodes"));
    c->nodes = nodes > 0 && nodes < 100000 ? (int)nodes : 1;
    c->autostop = (int)text_json_integer(text_json_get(from, "autostop"));
    c->to_down = text_json_true(text_json_get(from, "to_down"));
}

bool cloud_read_clusters(const char *name, bool refresh, struct cloud_clusters *out) {
    const char *argument[4] = {"status"};
    int count = 1;
    *out = (struct cloud_clusters){0};
    if (refresh)
        argument[count++] = "--refresh";
    if (name)
        argument[count++] = name;
    text_json_value list = query(argument);
    out->at = calloc((size_t)text_json_count(list) + 1, sizeof *out->at);
    for (int i = 0; out->at && i < text_json_count(list); i++)
        read_cluster(text_json_at(list, i), &out->at[out->count++]);
    text_json_free(list);
    return list && out->at;
}

void cloud_read_costs(struct cloud_clusters *clusters) {
    text_json_value list = clusters->count ? query((const char *[]){"cost-report", NULL}) : NULL;
    for (int i = 0; i < text_json_count(list); i++) {
        text_json_value r = text_json_at(list, i);
        double seconds = text_json_number_of(r, "duration"), cost = text_json_number_of(r, "total_cost");
        for (int k = 0; k < clusters->count && seconds > 0 && cost >= 0; k++)
            if (!strcmp(clusters->at[k].name, text_json_text_of(r, "name")) &&
                strcmp(text_json_text_of(r, "status"), "TERMINATED"))
                clusters->at[k].per_hour = cost * 3600 / seconds;
    }
    text_json_free(list);
}

// Showing ---------------------------------------------------------------------------------------------------

void cloud_show_cluster(FILE *out, const struct cloud_cluster *c) {
    fprintf(out, "  %-24s %-8s %s", c->name, c->status, c->resources);
    if (c->per_hour >= 0)
        fprintf(out, ", $%.2f per hour%s", c->per_hour, strcmp(c->status, "UP") ? " while it was up" : "");
    if (c->autostop >= 0)
        fprintf(out, ", %s after %d idle minutes", c->to_down ? "removed" : "stopped", c->autostop);
    else
        fprintf(out, ", stays until it is removed");
    fputc('\n', out);
}

void cloud_report_left(const char *name, bool managed) {
    struct cloud_clusters c;
    bool known = cloud_read_clusters(NULL, true, &c), named = false;
    if (known && c.count) {
        cloud_read_costs(&c);
        fprintf(stderr, "What there is, and may cost money:\n");
        for (int i = 0; i < c.count; i++) {
            cloud_show_cluster(stderr, &c.at[i]);
            named = named || !strcmp(c.at[i].name, name);
        }
    }
    if (managed)
        fprintf(stderr,
                "The job %s may have begun: `zellige cloud status --managed` says so, and\n"
                "`zellige cloud down --managed %s` ends it.\n",
                name, name);
    else if (known && !named)
        fprintf(stderr, "SkyPilot knows no cluster %s: it costs nothing.\n", name);
    else if (!known)
        fprintf(stderr, "SkyPilot does not say what is left: look at the cloud's console too.\n");
    if (!managed && (named || !known))
        fprintf(stderr, "`zellige cloud down %s` or `sky down %s` removes it.\n", name, name);
    free(c.at);
}

// Which one -------------------------------------------------------------------------------------------------

bool cloud_is_name(const char *text) {
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(text);
    return len && len < CLOUD_NAME / 2 && strspn(text, inside) == len && !strchr("0123456789-_.", text[0]) &&
           !strchr("-_.", text[len - 1]);
}

bool cli_kept_cluster(char *out) {
    char error[256];
    size_t bytes = 0;
    char *text = text_read_file(kept, &bytes, error, sizeof error);
    size_t len = text ? strcspn(text, "\n") : 0;
    bool good = text && (len == bytes || len + 1 == bytes);
    if (good)
        text[len] = 0;
    good = good && cloud_is_name(text);
    if (good)
        snprintf(out, CLOUD_NAME, "%s", text);
    free(text);
    return good;
}

bool cloud_keep_name(const struct invocation *call, const char *name) {
    FILE *f = fopen(kept, "w");
    bool written = f && fprintf(f, "%s\n", name) > 0;
    if ((f && fclose(f)) || !written)
        return cli_fail(call, "%s cannot be written here", kept), false;
    return true;
}

void cloud_forget_name(const char *name) {
    char now[CLOUD_NAME];
    if (cli_kept_cluster(now) && !strcmp(now, name))
        unlink(kept);
}

bool cloud_find_name(const struct invocation *call, char *out) {
    const char *name = cli_option(call, "name");
    if (name && !cloud_is_name(name))
        return cli_fail(call, "--name: a name of letters, digits, - and _ is expected"), false;
    if (name)
        snprintf(out, CLOUD_NAME, "%s", name);
    else if (!cli_kept_cluster(out))
        return cli_fail(call,
                        "no cluster is named: give --name, or a file %s, as `zellige cloud launch` writes it",
                        kept),
               false;
    return true;
}

bool cloud_find_up(const struct invocation *call, struct cloud_cluster *out) {
    struct cloud_clusters c;
    char name[CLOUD_NAME];
    if (!cloud_find_name(call, name) || !cloud_has_sky(call))
        return false;
    bool known = cloud_read_clusters(name, false, &c), up = false;
    for (int i = 0; i < c.count && !up; i++)
        if (!strcmp(c.at[i].name, name) && !strcmp(c.at[i].status, "UP")) {
            *out = c.at[i];
            up = true;
        }
    free(c.at);
    if (!known)
        cli_fail(call, "`sky status` does not answer");
    else if (!up)
        cli_fail(call, "%s is not up", name);
    return up;
}
