// charts.c - the report's charts as SVG, without scripts: titles serve as tooltips, and colours are variables
// of the page.

#include "bench.h"

#include <string.h>

enum { WIDTH = 760, HEIGHT = 360, LEFT = 84, RIGHT = 20, TOP = 14, BOTTOM = 40 };

struct axis {
    double low, high; // logarithms to the base 10
};

static double x_of(const struct axis *a, double value) {
    return LEFT + (log10(value) - a->low) / (a->high - a->low) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axis *a, double value) {
    return HEIGHT - BOTTOM - (log10(value) - a->low) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void widen(struct axis *a, double value) {
    if (!(value > 0) || !isfinite(value))
        return;
    a->low = fmin(a->low, floor(log10(value)));
    a->high = fmax(a->high, ceil(log10(value) + 1e-9));
}

static struct axis empty_axis(void) {
    return (struct axis){.low = INFINITY, .high = -INFINITY};
}

static void open_svg(FILE *out, int height, const char *label) {
    bench_html(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, height, label);
}

// Writes 10^power of a unit as text: "100 GFLOP/s", "1 MB".
static const char *power_name(int power, const char *unit, const char *per, char out[32]) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int step = power > 0 ? power / 3 : 0;
    step = step < 5 ? step : 5;
    snprintf(out, 32, "%g%s%s%s%s", pow(10, power - 3 * step), unit[0] ? " " : "",
             unit[0] || step ? prefixes[step] : "", unit, per);
    return out;
}

// Draws grid lines at powers of ten, with their values.
static void draw_grid(FILE *out, const struct axis *x, const struct axis *y, const char *x_name,
                      const char *x_unit, const char *unit) {
    char text[32];
    for (int p = (int)x->low; p <= (int)x->high; p++) {
        double at = x_of(x, pow(10, p));
        bench_html(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", at, TOP, at,
                   HEIGHT - BOTTOM);
        bench_html(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at,
                   HEIGHT - BOTTOM + 16, power_name(p, x_unit, "", text));
    }
    for (int p = (int)y->low; p <= (int)y->high; p++) {
        double at = y_of(y, pow(10, p));
        bench_html(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", LEFT, at,
                   WIDTH - RIGHT, at);
        bench_html(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6, at + 4,
                   power_name(p, unit, "/s", text));
    }
    bench_html(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
               HEIGHT - 6, x_name);
}

static void draw_point(FILE *out, double x, double y, const struct bench_row *row, const char *text) {
    bench_html(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"var(--d%d)\" class=\"%s\">", x, y,
               (int)row->config.dtype, bench_status_name(row->status));
    bench_html(out, "<title>%s: %s</title></circle>\n", row->config.id, text);
}

static void draw_key(FILE *out, const bool used[BENCH_DTYPES]) {
    fputs("<p>", out);
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (used[d])
            bench_html(out, "<span class=\"key\"><i class=\"d%d\"></i>%s</span>", d,
                       bench_dtype_name((enum bench_dtype)d));
    fputs("</p>\n", out);
}

static bool has_rate(const struct bench_row *row) {
    return isfinite(row->rate) && row->rate > 0;
}

// Roofline --------------------------------------------------------------------------------------------------

static bool is_on_roofline(const struct bench_row *row) {
    double intensity = row->flops / row->bytes;
    return has_rate(row) && !strcmp(row->unit, "FLOP") && intensity > 0 && isfinite(intensity);
}

static void draw_roof(FILE *out, const struct bench_subject *s, int dtype, const struct axis *x,
                      const struct axis *y) {
    double peak = s->peak[dtype].rate, left = pow(10, x->low), right = pow(10, x->high),
           ridge = peak / s->bandwidth;
    double start = fmax(s->bandwidth * left, pow(10, y->low));
    ridge = fmin(fmax(ridge, left), right);
    bench_html(out,
               "<polyline class=\"roof\" stroke=\"var(--d%d)\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
               dtype, x_of(x, start / s->bandwidth), y_of(y, start), x_of(x, ridge), y_of(y, peak),
               x_of(x, right), y_of(y, peak));
}

void bench_chart_roofline(FILE *out, const struct bench_run *run) {
    const struct bench_subject *s = &run->subject;
    struct axis x = {-1, 3}, y = empty_axis();
    bool used[BENCH_DTYPES] = {false}, any = false;
    char rate[32];
    for (int i = 0; i < run->rows; i++)
        if (is_on_roofline(&run->row[i])) {
            widen(&x, run->row[i].flops / run->row[i].bytes);
            widen(&y, run->row[i].rate);
            widen(&y, s->peak[run->row[i].config.dtype].rate);
            used[run->row[i].config.dtype] = any = true;
        }
    if (!any)
        return;
    fputs("<section><h2>Roofline</h2>\n", out);
    draw_key(out, used);
    open_svg(out, HEIGHT, "Rate by operations a byte, below the limits of memory and arithmetic");
    draw_grid(out, &x, &y, "operations a byte", "", "FLOP");
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (used[d] && isfinite(s->peak[d].rate) && isfinite(s->bandwidth))
            draw_roof(out, s, d, &x, &y);
    for (int i = 0; i < run->rows; i++)
        if (is_on_roofline(&run->row[i]))
            draw_point(out, x_of(&x, run->row[i].flops / run->row[i].bytes), y_of(&y, run->row[i].rate),
                       &run->row[i], bench_format_rate(run->row[i].rate, "FLOP", rate));
    fputs("</svg></section>\n", out);
}

// Heat map --------------------------------------------------------------------------------------------------

static bool is_product(const struct bench_row *row) {
    return !strcmp(row->config.work, "gemm") && !row->config.op[0] && isfinite(row->utilisation);
}

static const char *size_name(const struct bench_row *row) {
    const char *slash = strrchr(row->config.id, '/');
    return slash ? slash + 1 : "";
}

enum { COLUMNS_MOST = 24 };

// Lists the sizes of products in the order of the rows, without repetition.
static int list_sizes(const struct bench_run *run, const char **sizes) {
    int count = 0;
    for (int i = 0; i < run->rows; i++) {
        bool seen = !is_product(&run->row[i]) || count == COLUMNS_MOST;
        for (int j = 0; j < count && !seen; j++)
            seen = !strcmp(sizes[j], size_name(&run->row[i]));
        if (!seen)
            sizes[count++] = size_name(&run->row[i]);
    }
    return count;
}

static void draw_cell(FILE *out, const struct bench_row *row, double x, double y, double width) {
    double part = row->utilisation;
    bench_html(out,
               "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"26\" rx=\"3\" fill=\"var(--%s)\" "
               "fill-opacity=\"%.3f\">",
               x, y, width - 3, part > 1 ? "bad" : "accent", 0.08 + 0.85 * fmin(part, 1));
    bench_html(out, "<title>%s", row->config.id);
    bench_html(out,
               ": %.1f %%</title></rect><text class=\"ink\" x=\"%.1f\" y=\"%.1f\" "
               "text-anchor=\"middle\">%.0f</text>\n",
               100 * part, x + width / 2 - 1.5, y + 17, 100 * part);
}

void bench_chart_heat(FILE *out, const struct bench_run *run) {
    const char *sizes[COLUMNS_MOST];
    int columns = list_sizes(run, sizes), line = 0, height = 40;
    if (columns < 2)
        return;
    for (int d = 0; d < BENCH_DTYPES; d++)
        for (int i = 0; i < run->rows; i++)
            if (is_product(&run->row[i]) && (int)run->row[i].config.dtype == d) {
                height += 29;
                break;
            }
    double width = (WIDTH - LEFT) / (double)columns;
    fputs(
        "<section><h2>Part of the peak, by shape</h2><p class=\"soft\">Products of matrices, percent.</p>\n",
        out);
    open_svg(out, height + (columns > 8 ? 60 : -10), "Percent of the peak by dtype and shape");
    for (int d = 0; d < BENCH_DTYPES; d++) {
        bool any = false;
        for (int i = 0; i < run->rows; i++)
            for (int c = 0; c < columns; c++)
                if (is_product(&run->row[i]) && (int)run->row[i].config.dtype == d &&
                    !strcmp(sizes[c], size_name(&run->row[i]))) {
                    draw_cell(out, &run->row[i], LEFT + c * width, 8 + line * 29, width);
                    any = true;
                }
        if (any)
            bench_html(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
                       25 + line++ * 29, bench_dtype_name((enum bench_dtype)d));
    }
    for (int c = 0; c < columns; c++)
        bench_html(out, "<text transform=\"translate(%.1f %d) rotate(%d)\" text-anchor=\"%s\">%s</text>\n",
                   LEFT + (c + 0.5) * width, 20 + line * 29, columns > 8 ? -35 : 0,
                   columns > 8 ? "end" : "middle", sizes[c]);
    fputs("</svg></section>\n", out);
}

// Bars ------------------------------------------------------------------------------------------------------

static const struct bench_row *best_product(const struct bench_run *run, int dtype) {
    const struct bench_row *best = NULL;
    for (int i = 0; i < run->rows; i++) {
        const struct bench_row *row = &run->row[i];
        if (!strcmp(row->config.work, "gemm") && (int)row->config.dtype == dtype && has_rate(row) &&
            (!best || row->rate > best->rate))
            best = row;
    }
    return best;
}

void bench_chart_bars(FILE *out, const struct bench_run *run) {
    double most = 0;
    int bars = 0, line = 0;
    char rate[32], part[16], peak_text[32];
    for (int d = 0; d < BENCH_DTYPES; d++) {
        const struct bench_row *best = best_product(run, d);
        bars += best != NULL;
        if (best)
            most = fmax(most, fmax(best->rate, isfinite(best->peak) ? best->peak : 0));
    }
    if (bars == 0)
        return;
    fputs("<section><h2>Best product of each dtype</h2><p class=\"soft\">Bars are rates, frames the "
          "peaks.</p>\n",
          out);
    open_svg(out, bars * 34 + 6, "Best rate of each dtype beside its peak");
    for (int d = 0; d < BENCH_DTYPES; d++) {
        const struct bench_row *best = best_product(run, d);
        if (!best)
            continue;
        double y = 4 + line++ * 34, scale = (WIDTH - LEFT - 260) / most;
        bench_html(out, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>", LEFT - 8, y + 17,
                   bench_dtype_name((enum bench_dtype)d));
        if (isfinite(best->peak))
            bench_html(out,
                       "<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"24\" rx=\"3\" fill=\"none\" "
                       "stroke=\"var(--line)\"/>",
                       LEFT, y, best->peak * scale);
        bench_html(out,
                   "<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"24\" rx=\"3\" "
                   "fill=\"var(--d%d)\"><title>%s</title></rect>",
                   LEFT, y, fmax(best->rate * scale, 1), d, best->config.id);
        bench_html(out, "<text class=\"ink\" x=\"%.1f\" y=\"%.0f\">%s, %s of %s</text>\n",
                   LEFT + fmax(best->rate, isfinite(best->peak) ? best->peak : 0) * scale + 8, y + 17,
                   bench_format_rate(best->rate, "FLOP", rate), bench_format_percent(best->utilisation, part),
                   bench_format_rate(best->peak, "FLOP", peak_text));
    }
    fputs("</svg></section>\n", out);
}

// Bandwidth by size -----------------------------------------------------------------------------------------

static bool is_bandwidth(const struct bench_row *row) {
    return !strcmp(row->config.work, "bandwidth") && has_rate(row) && row->bytes > 0 && isfinite(row->bytes);
}

void bench_chart_bandwidth(FILE *out, const struct bench_run *run) {
    struct axis x = empty_axis(), y = empty_axis();
    bool used[BENCH_DTYPES] = {false};
    int points = 0;
    char rate[32];
    for (int i = 0; i < run->rows; i++)
        if (is_bandwidth(&run->row[i])) {
            widen(&x, run->row[i].bytes);
            widen(&y, run->row[i].rate);
            used[run->row[i].config.dtype] = true;
            points++;
        }
    if (points < 2)
        return;
    widen(&y, run->subject.bandwidth);
    fputs("<section><h2>Memory by size</h2>\n", out);
    draw_key(out, used);
    open_svg(out, HEIGHT, "Bytes per second by bytes moved");
    draw_grid(out, &x, &y, "bytes read and written", "B", "B");
    for (int d = 0; d < BENCH_DTYPES; d++) {
        bench_html(out, "<polyline class=\"roof\" stroke=\"var(--d%d)\" points=\"", d);
        for (int i = 0; i < run->rows; i++)
            if (is_bandwidth(&run->row[i]) && (int)run->row[i].config.dtype == d)
                bench_html(out, "%.1f,%.1f ", x_of(&x, run->row[i].bytes), y_of(&y, run->row[i].rate));
        fputs("\"/>\n", out);
    }
    for (int i = 0; i < run->rows; i++)
        if (is_bandwidth(&run->row[i]))
            draw_point(out, x_of(&x, run->row[i].bytes), y_of(&y, run->row[i].rate), &run->row[i],
                       bench_format_rate(run->row[i].rate, "B", rate));
    fputs("</svg></section>\n", out);
}

// Trend -----------------------------------------------------------------------------------------------------

enum { TREND_HEIGHT = 46, TREND_LINES = 12 };

// Draws one line of the trend: the rates of a row over the runs, relative to the first run.
static void draw_trend(FILE *out, const struct bench_run *runs, int count, const struct bench_row *row,
                       int line) {
    double low = INFINITY, high = 0, y = line * TREND_HEIGHT, step = 300.0 / (count > 1 ? count - 1 : 1);
    char rate[32];
    for (int i = 0; i < count; i++) {
        const struct bench_row *then = bench_run_find(&runs[i], row->config.id);
        if (then && has_rate(then)) {
            low = fmin(low, then->rate);
            high = fmax(high, then->rate);
        }
    }
    low = fmin(low, 0.8 * high); // so that a small change looks small
    bench_html(out,
               "<text x=\"0\" y=\"%.0f\">%s</text><polyline class=\"roof\" stroke=\"var(--d%d)\" points=\"",
               y + 26, row->config.id, (int)row->config.dtype);
    for (int i = 0; i < count; i++) {
        const struct bench_row *then = bench_run_find(&runs[i], row->config.id);
        if (then && has_rate(then))
            bench_html(out, "%.1f,%.1f ", 300 + i * step, y + 38 - 30 * (then->rate - low) / (high - low));
    }
    bench_html(out, "\"/><text class=\"ink\" x=\"612\" y=\"%.0f\">%s</text>\n", y + 26,
               bench_format_rate(row->rate, row->unit, rate));
}

void bench_chart_trend(FILE *out, const struct bench_run *runs, int count) {
    const struct bench_run *last = &runs[count - 1];
    int lines = 0;
    if (count < 2)
        return;
    for (int i = 0; i < last->rows; i++)
        lines += has_rate(&last->row[i]) && lines < TREND_LINES;
    bench_html(
        out,
        "<section><h2>Trend</h2><p class=\"soft\">Rates of the last %d runs of this suite on this chip, "
        "from %s to %s.</p>\n",
        count, runs[0].started, last->started);
    open_svg(out, lines * TREND_HEIGHT + 8, "Rates over the last runs");
    for (int i = 0, line = 0; i < last->rows && line < lines; i++)
        if (has_rate(&last->row[i]))
            draw_trend(out, runs, count, &last->row[i], line++);
    fputs("</svg></section>\n", out);
}
