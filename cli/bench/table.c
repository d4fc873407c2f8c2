// table.c - prints rows as text when they are done; on a terminal with a bar that shows the time left.

#include "bench.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

static const char *format_amount(double amount, const char *unit, const char *per, char out[32]) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int step = 0;
    for (; amount >= 999.95 && step < 5; step++)
        amount /= 1000;
    snprintf(out, 32, "%.*f %s%s%s", amount < 10 ? 2 : 1, amount, prefixes[step], unit, per);
    return out;
}

const char *bench_format_rate(double rate, const char *unit, char out[32]) {
    if (isfinite(rate))
        return format_amount(rate, unit, "/s", out);
    snprintf(out, 32, "-");
    return out;
}

const char *bench_format_bytes(double bytes, char out[32]) {
    if (isfinite(bytes) && bytes > 0)
        return format_amount(bytes, "B", "", out);
    snprintf(out, 32, "-");
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

// Returns the columns of a terminal; 80 if it does not say, or if the file is no terminal.
static int terminal_width(int file) {
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Returns the width of the first column; the others have 50 together.
static int name_width(void) {
    int left = isatty(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) - 50 : 40;
    return left < 8 ? 8 : left > 40 ? 40 : left;
}

void bench_table_head(const struct bench_run *run) {
    char peak[32];
    const struct bench_subject *s = &run->subject;
    printf("%s%s%s on %s, %d threads%s%s%s\n", cli_bold(), run->suite, cli_plain(), s->name, s->threads,
           s->is_modelled ? ", modelled: no chip ran this" : "", run->folder[0] ? ", into " : "",
           run->folder);
    printf("%speaks:", cli_dim());
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (isfinite(s->peak[d].rate))
            printf(" %s %s,", bench_dtype_name((enum bench_dtype)d),
                   bench_format_rate(s->peak[d].rate, "FLOP", peak));
    printf(" memory %s%s\n", bench_format_rate(s->bandwidth, "B", peak), cli_plain());
    cli_remark_cpu(s->device, "");
    printf("%s%-*s %12s %8s %15s %8s%s\n", cli_bold(), name_width(), "what", "median", "+-", "rate",
           "of peak", cli_plain());
}

static void print_remarks(const struct bench_row *row) {
    if (row->status != BENCH_OK)
        printf("  %s%s: %s%s", cli_bold(), bench_status_name(row->status), row->note, cli_plain());
    if (row->clock != BENCH_CLOCK_HOST)
        printf("  %s", bench_clock_remark(row->clock));
    if (row->path[0])
        printf("  %s", row->path);
    if (row->stats.bimodal)
        printf("  two groups of samples");
    if (bench_row_is_unstable(row))
        printf("  %snot stable%s", cli_dim(), cli_plain());
}

void bench_table_row(const struct bench_row *row) {
    char median[32], rate[32], part[16], half[16] = "";
    double spread = (row->stats.high - row->stats.low) / 2 / row->stats.median;
    if (isfinite(spread))
        snprintf(half, sizeof half, "%.1f %%", 100 * spread);
    if (isatty(STDOUT_FILENO) && (int)strlen(row->config.id) > name_width())
        printf("%s\n%*s", row->config.id, name_width(), "");
    else
        printf("%-*s", name_width(), row->config.id);
    printf(" %12s %8s %15s %8s", bench_format_seconds(row->stats.median, median), half,
           bench_format_rate(row->rate, row->unit, rate), bench_format_percent(row->utilisation, part));
    print_remarks(row);
    printf("\n");
    fflush(stdout);
}

// The bar ---------------------------------------------------------------------------------------------------

// Prints a line now and then if there is no terminal, so that a log shows progress.
static void progress_line(int done, int all, const char *left, const char *what) {
    static const double pause = 10;
    static double last;
    double now = bench_now();
    if (all == 0 || (last != 0 && now - last < pause))
        return;
    if (last != 0)
        fprintf(stderr, "%d/%d%s  %s\n", done, all, left, what);
    last = now;
}

void bench_progress(int done, int all, double started, const char *what) {
    enum { BAR = 24, WIDEST = 160 };
    char bar[BAR + 1], left[32] = "", line[WIDEST];
    if (done > 0 && all > done)
        snprintf(left, sizeof left, ", %.0f s left", (bench_now() - started) / done * (all - done));
    if (!isatty(STDERR_FILENO)) {
        progress_line(done, all, left, what);
        return;
    }
    fprintf(stderr, "\r\033[K");
    if (all == 0)
        return;
    int width = terminal_width(STDERR_FILENO), cells = width / 3 < BAR ? width / 3 : BAR;
    for (int i = 0; i < cells; i++)
        bar[i] = i < (int)((double)cells * done / all) ? '#' : '.';
    snprintf(line, sizeof line, "[%.*s] %d/%d%s  %s", cells, bar, done, all, left, what);
    fprintf(stderr, "%.*s", width - 1, line); // a line that wraps could not be erased
    fflush(stderr);
}
