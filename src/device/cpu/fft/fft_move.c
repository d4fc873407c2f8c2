// fft_move.c - moves lines of complex numbers between memory and lists of real and imaginary parts: four
// numbers at a time if they are contiguous along a line or across lines, else one by one.

#include "device/cpu/fft/fft_plan.h"

#include <string.h>

#include "base/base.h"

typedef float quad __attribute__((vector_size(16)));
typedef quad quad_memory __attribute__((aligned(4), may_alias));

#define FIRSTS(a, b)   __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define SECONDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

enum { FLOAT = sizeof(float), PAIR = 2 * sizeof(float), WIDTH = FFT_WIDTH };
enum { BLOCK = 8 }; // numbers of a line that are moved before those of the next line: a cache line

static inline quad load(const void *from) {
    return *(const quad_memory *)from;
}

static inline void store(void *to, quad x) {
    *(quad_memory *)to = x;
}

// Transposes a 4 x 4 square.
static inline void turn(quad *x) {
    quad a = ZIP_LOW(x[0], x[2]), b = ZIP_HIGH(x[0], x[2]), c = ZIP_LOW(x[1], x[3]), d = ZIP_HIGH(x[1], x[3]);
    x[0] = ZIP_LOW(a, c);
    x[1] = ZIP_HIGH(a, c);
    x[2] = ZIP_LOW(b, d);
    x[3] = ZIP_HIGH(b, d);
}

// Returns whether corresponding elements of consecutive lines are adjacent in memory.
static bool are_neighbours(char *const *line, int64_t lanes) {
    for (int64_t l = 1; l < lanes; l++)
        if (line[l] - line[l - 1] != PAIR)
            return false;
    return true;
}

// Loading ---------------------------------------------------------------------------------------------------

static void load_each(const char *from, int64_t step, int64_t apart, int64_t lanes, int64_t count, float *re,
                      float *im) {
    for (int64_t j = 0; j < count; j++, from += step) {
        memcpy(&re[j * lanes], from, FLOAT);
        memcpy(&im[j * lanes], from + apart, FLOAT);
    }
}

// Loads four complex numbers of each of four lines.
static void load_square(char *const *line, int64_t at, int64_t lanes, float *re, float *im) {
    quad x[WIDTH], y[WIDTH];
    for (int k = 0; k < WIDTH; k++) {
        quad a = load(line[k] + at * PAIR), b = load(line[k] + at * PAIR + 2 * PAIR);
        x[k] = FIRSTS(a, b);
        y[k] = SECONDS(a, b);
    }
    turn(x);
    turn(y);
    for (int k = 0; k < WIDTH; k++) {
        store(re + (at + k) * lanes, x[k]);
        store(im + (at + k) * lanes, y[k]);
    }
}

// Loads consecutive complex numbers: those of one line, or element j of consecutive lines.
static void load_run(const char *from, int64_t count, float *re, float *im) {
    int64_t j = 0;
    for (; j + WIDTH <= count; j += WIDTH, from += WIDTH * PAIR) {
        quad a = load(from), b = load(from + 2 * PAIR);
        store(re + j, FIRSTS(a, b));
        store(im + j, SECONDS(a, b));
    }
    load_each(from, PAIR, FLOAT, 1, count - j, re + j, im + j);
}

void cpu_fft_load(char *const *line, int64_t lanes, int64_t step, int64_t apart, int64_t count, float *re,
                  float *im) {
    bool pairs = step == PAIR && apart == FLOAT;
    int64_t l = 0;
    if (pairs && lanes == 1) {
        load_run(line[0], count, re, im);
        return;
    }
    if (apart == FLOAT && lanes > 1 && are_neighbours(line, lanes)) {
        for (int64_t j = 0; j < count; j++)
            load_run(line[0] + j * step, lanes, re + j * lanes, im + j * lanes);
        return;
    }
    if (pairs) {
        int64_t whole = count / BLOCK * BLOCK;
        for (int64_t j = 0; j < whole; j += BLOCK)
            for (l = 0; l + WIDTH <= lanes; l += WIDTH)
                for (int64_t k = j; k < j + BLOCK; k += WIDTH)
                    load_square(line + l, k, lanes, re + l, im + l);
        l = lanes / WIDTH * WIDTH;
        for (int64_t k = 0; k < l; k++)
            load_each(line[k] + whole * PAIR, PAIR, FLOAT, lanes, count - whole, re + whole * lanes + k,
                      im + whole * lanes + k);
    }
    for (; l < lanes; l++)
        load_each(line[l], step, apart, lanes, count, re + l, im + l);
}

// Storing ---------------------------------------------------------------------------------------------------

static void store_each(char *to, int64_t step, int64_t apart, int64_t lanes, int64_t count, const float *re,
                       const float *im, float scale) {
    for (int64_t j = 0; j < count; j++, to += step) {
        float x = re[j * lanes] * scale, y = im[j * lanes] * scale;
        memcpy(to, &x, FLOAT);
        memcpy(to + apart, &y, FLOAT);
    }
}

static void store_square(char *const *line, int64_t at, int64_t lanes, const float *re, const float *im,
                         float scale) {
    quad x[WIDTH], y[WIDTH];
    for (int k = 0; k < WIDTH; k++) {
        x[k] = load(re + (at + k) * lanes) * scale;
        y[k] = load(im + (at + k) * lanes) * scale;
    }
    turn(x);
    turn(y);
    for (int k = 0; k < WIDTH; k++) {
        store(line[k] + at * PAIR, ZIP_LOW(x[k], y[k]));
        store(line[k] + at * PAIR + 2 * PAIR, ZIP_HIGH(x[k], y[k]));
    }
}

static void store_run(char *to, int64_t count, const float *re, const float *im, float scale) {
    int64_t j = 0;
    for (; j + WIDTH <= count; j += WIDTH, to += WIDTH * PAIR) {
        quad x = load(re + j) * scale, y = load(im + j) * scale;
        store(to, ZIP_LOW(x, y));
        store(to + 2 * PAIR, ZIP_HIGH(x, y));
    }
    store_each(to, PAIR, FLOAT, 1, count - j, re + j, im + j, scale);
}

void cpu_fft_store(char *const *line, int64_t lanes, int64_t step, int64_t apart, int64_t count,
                   const float *re, const float *im, float scale) {
    bool pairs = step == PAIR && apart == FLOAT;
    int64_t l = 0;
    if (pairs && lanes == 1) {
        store_run(line[0], count, re, im, scale);
        return;
    }
    if (apart == FLOAT && lanes > 1 && are_neighbours(line, lanes)) {
        for (int64_t j = 0; j < count; j++)
            store_run(line[0] + j * step, lanes, re + j * lanes, im + j * lanes, scale);
        return;
    }
    if (pairs) {
        int64_t whole = count / BLOCK * BLOCK;
        for (int64_t j = 0; j < whole; j += BLOCK)
            for (l = 0; l + WIDTH <= lanes; l += WIDTH)
                for (int64_t k = j; k < j + BLOCK; k += WIDTH)
                    store_square(line + l, k, lanes, re + l, im + l, scale);
        l = lanes / WIDTH * WIDTH;
        for (int64_t k = 0; k < l; k++)
            store_each(line[k] + whole * PAIR, PAIR, FLOAT, lanes, count - whole, re + whole * lanes + k,
                       im + whole * lanes + k, scale);
    }
    for (; l < lanes; l++)
        store_each(line[l], step, apart, lanes, count, re + l, im + l, scale);
}
