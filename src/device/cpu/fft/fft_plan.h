// fft_plan.h - Fourier transforms of one length, of several lines side by side.

#ifndef FFT_PLAN_H
#define FFT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

// Lines of complex numbers in two parts: element j of line l is at j * lanes + l. Each list has room for
// (cpu_fft_size() + 1) * lanes.
struct fft_lines {
    float *re, *im;
    float *spare_re, *spare_im;
    int64_t lanes;
};

// Neighbours in a list that are computed at once, wherever it begins.
enum { FFT_WIDTH = 4 };
typedef float fft_vector __attribute__((vector_size(4 * FFT_WIDTH), aligned(4), may_alias));

// fft_move.c: count numbers of each line, step bytes apart, between memory and lists: the first of each is in
// re, the one `apart` bytes behind it in im. What is stored is multiplied by scale.
void cpu_fft_load(char *const *line, int64_t lanes, int64_t step, int64_t apart, int64_t count, float *re,
                  float *im);
void cpu_fft_store(char *const *line, int64_t lanes, int64_t step, int64_t apart, int64_t count,
                   const float *re, const float *im, float scale);

struct fft_plan; // what depends on the length; never changes once it is made
struct fft_plan *cpu_fft_plan(int64_t n); // to be freed; NULL and an error
void cpu_fft_free(struct fft_plan *plan);
bool cpu_fft_is_product(int64_t n); // of small primes: such lengths need no other
int64_t cpu_fft_size(const struct fft_plan *plan); // elements of a line that it works on: n at least

// Transforms re and im, forward and unscaled. The lists change places: the result is in re and im again.
void cpu_fft_run(const struct fft_plan *plan, struct fft_lines *lines);
// The same with exp(2 pi i j k / n).
void cpu_fft_run_inverse(const struct fft_plan *plan, struct fft_lines *lines);

// Real lines of 2 * half numbers are transformed as half complex ones: a pair of numbers is one. Elements 0
// to half of the real lines, in the spare lists, from the transform of the pairs; and the other way, to be
// transformed back. roots: half + 1 of the 2 * half roots of unity.
void cpu_fft_unpack(struct fft_lines *lines, int64_t half, const float *roots);
void cpu_fft_pack(struct fft_lines *lines, int64_t half, const float *roots);

// The same for n elements of one long line. from: real and imaginary parts of the elements, then of those
// that mirror them, from the last to the first. roots: those of the first element on.
void cpu_fft_unpack_piece(int64_t n, const float *roots, const float *const *from, float *re, float *im);
void cpu_fft_pack_piece(int64_t n, const float *roots, const float *const *from, float *re, float *im);

// exp(-2 pi i j / n) for j < count, real and imaginary part in turn. False and an error.
bool cpu_fft_roots(int64_t n, int64_t count, float *out);

// fft_split.c: one long line, on all threads.
enum { FFT_SPLIT_LEAST = 16384 };
struct fft_split;
bool cpu_fft_can_split(int64_t n);
struct fft_split *cpu_fft_split(int64_t n); // to be freed; NULL and an error
void cpu_fft_split_free(struct fft_split *s);
// A line in memory: real parts are step bytes apart, imaginary ones `apart` bytes behind them.
struct fft_line {
    char *data;
    int64_t step, apart;
};
// What `to` gets is multiplied by scale; it may be what `from` is. False and an error.
bool cpu_fft_split_run(const struct fft_split *s, const struct fft_line *from, const struct fft_line *to,
                       bool inverse, float scale);

// fft_kit.c: n is the length of the lines; real ones of even length are transformed as pairs.
struct fft_kit {
    int64_t n;
    bool real, kept;
    struct fft_plan *plan;   // one of these two
    struct fft_split *split;
    float *roots; // real: exp(-2 pi i k / n) for k to n / 2
    int users;
    uint64_t used; // when
};
struct fft_kit *cpu_fft_take(int64_t n, bool real); // to be given back; NULL and an error
void cpu_fft_give(struct fft_kit *kit);

#endif
