// sky.c - runs SkyPilot's program. Values of secrets are never among its arguments.

#include "cloud.h"

#include <stdlib.h>
#include <unistd.h>

void cloud_add(struct cloud_words *w, const char *word) {
    if (w->count < CLOUD_WORDS)
        w->at[w->count++] = word;
}

void cloud_add_secrets(struct cloud_words *w, const struct cloud_task *t) {
    for (int i = 0; i < t->secrets; i++) {
        cloud_add(w, "--secret");
        cloud_add(w, t->secret[i]); // sky takes the value from the environment
    }
}

int cloud_sky(const struct cloud_words *w, char **output) {
    return cli_run_program(w->at, output);
}

bool cloud_has_sky(const struct invocation *call) {
    char *said = NULL;
    int code = cli_run_program((const char *[]){"sky", "--version", NULL}, &said);
    free(said);
    if (code == CLI_NOT_FOUND)
        cli_fail(call, "there is no program sky: pip install 'skypilot[gcp]==0.14.1'");
    return code != CLI_NOT_FOUND;
}
