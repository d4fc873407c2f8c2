// table.c - rows for people, as they come: on a terminal with a bar that says how long the rest will take.

#include "bench.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

const char *bench_format_rate(double rate, const char *unit, char out[32]) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int step = 0;
    if (!isfinite(rate)) {
        snprintf(out, 32, "-");
        return out;
    }
    for (; rate >= 999.95 && step < 5; step++)
        rate /= 1000;
    snprintf(out, 32, "%.*f %s%s/s", rate < 10 ? 2 : 1, rate, prefixes[step], unit);
    return out;
}

const char *bench_format_seconds(double seconds, char out[32]) {
    static const struct {
        double scale;
        const char *unit;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    int i = 0;
    if (!isfinite(seconds)) {
        snprintf(out, 32, "-");
        return out;
    }
    while (i < 3 && seconds < units[i].scale)
        i++;
    snprintf(out, 32, "%.3g %s", seconds / units[i].scale, units[i].unit);
    return out;
}

const char *bench_format_percent(double part, char out[16]) {
    if (isfinite(part))
        snprintf(out, 16, "%.1f %%", 100 * part);
    else
        snprintf(out, 16, "n/a");
    return out;
}

void bench_table_head(const struct bench_run *run) {
    char peak[32];
    const struct bench_subject *s = &run->subject;
    printf("%s%s%s on %s, %d threads%s%s\n", cli_bold(), run->suite, cli_plain(), s->name, s->threads,
           run->folder[0] ? ", into " : "", run->folder);
    printf("%speaks:", cli_dim());
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (isfinite(s->peak[d].rate))
            printf(" %s %s,", bench_dtype_name((enum bench_dtype)d),
                   bench_format_rate(s->peak[d].rate, "FLOP", peak));
    printf(" memory %s%s\n", bench_format_rate(s->bandwidth, "B", peak), cli_plain());
    printf("%s%-40s %12s %8s %15s %8s  %s%s\n", cli_bold(), "what", "median", "+-", "rate", "of peak", "",
           cli_plain());
}

static void print_remarks(const struct bench_row *row) {
    if (row->status != BENCH_OK)
        printf("  %s%s: %s%s", cli_bold(), bench_status_name(row->status), row->note, cli_plain());
    if (row->path[0])
        printf("  %s", row->path);
    if (row->stats.bimodal)
        printf("  two groups of samples");
    if (row->status == BENCH_OK && !row->stable)
        printf("  %snot stable%s", cli_dim(), cli_plain());
}

void bench_table_row(const struct bench_row *row) {
    char median[32], rate[32], part[16], half[16] = "";
    double spread = (row->stats.high - row->stats.low) / 2 / row->stats.median;
    if (isfinite(spread))
        snprintf(half, sizeof half, "%.1f %%", 100 * spread);
    printf("%-40s %12s %8s %15s %8s", row->config.id, bench_format_seconds(row->stats.median, median), half,
           bench_format_rate(row->rate, row->unit, rate), bench_format_percent(row->utilisation, part));
    print_remarks(row);
    printf("\n");
    fflush(stdout);
}

// The bar ---------------------------------------------------------------------------------------------------

static int terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void bench_progress(int done, int all, double started, const char *what) {
    enum { BAR = 24 };
    char bar[BAR + 1], left[32] = "";
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K");
    if (all == 0)
        return;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < BAR * done / all ? '#' : '.';
    bar[BAR] = 0;
    if (done > 0)
        snprintf(left, sizeof left, ", %.0f s left", (bench_now() - started) / done * (all - done));
    fprintf(stderr, "[%s] %d/%d%s  %.*s", bar, done, all, left, terminal_width() - BAR - 32, what);
    fflush(stderr);
}
