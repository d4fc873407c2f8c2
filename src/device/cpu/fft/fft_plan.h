// fft_plan.h - Fourier transforms of one length, of several lines at once.

#ifndef FFT_PLAN_H
#define FFT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

// Lines of complex numbers, whose real and imaginary parts are in separate lists: element j of line l is at j
// * lanes + l. Each list has room for (cpu_fft_size() + 1) * lanes numbers.
struct fft_lines {
    float *re, *im;
    float *spare_re, *spare_im;
    int64_t lanes;
};

// Consecutive numbers of a list that are computed at once. A list may begin at any address.
enum { FFT_WIDTH = 4 };
typedef float fft_vector __attribute__((vector_size(4 * FFT_WIDTH), aligned(4), may_alias));

// fft_move.c: moves count complex numbers of each line between memory and lists. In memory they are `step`
// bytes apart, and the imaginary part is `apart` bytes after the real one.

// Copies from memory to the lists.
void cpu_fft_load(char *const *line, int64_t lanes, int64_t step, int64_t apart, int64_t count, float *re,
                  float *im);
// Stores the lists, multiplied by scale.
void cpu_fft_store(char *const *line, int64_t lanes, int64_t step, int64_t apart, int64_t count,
                   const float *re, const float *im, float scale);

struct fft_plan; // what depends on the length; it never changes, so threads may share it
// Makes a plan for lines of n numbers, which the caller frees with cpu_fft_free(). Returns NULL and an error
// if memory runs out.
struct fft_plan *cpu_fft_plan(int64_t n);
// Frees a plan.
void cpu_fft_free(struct fft_plan *plan);
// Returns whether n is a product of small primes. Otherwise its transform needs one of a longer length.
bool cpu_fft_is_product(int64_t n);
// Returns the elements of a line that the plan works on, at least n.
int64_t cpu_fft_size(const struct fft_plan *plan);

// Transforms re and im, forward and unscaled. The result is in re and im, which may have been exchanged with
// the spare lists.
void cpu_fft_run(const struct fft_plan *plan, struct fft_lines *lines);
// Transforms likewise, by exp(2 pi i j k / n): unscaled too.
void cpu_fft_run_inverse(const struct fft_plan *plan, struct fft_lines *lines);

// A real line of 2 * half numbers is transformed as half complex ones, each a pair of numbers. roots: the
// first half + 1 of the 2 * half roots of unity.

// Computes elements 0 to half of the real lines' transform, in the spare lists, from that of the pairs.
void cpu_fft_unpack(struct fft_lines *lines, int64_t half, const float *roots);
// Computes the transform of the pairs from the spare lists, for cpu_fft_run_inverse().
void cpu_fft_pack(struct fft_lines *lines, int64_t half, const float *roots);

// The same for n elements of one long line. from: real and imaginary parts of the elements, then of those
// that mirror them, from the last to the first. roots: from that of the first element on.

// Computes n elements as cpu_fft_unpack() does.
void cpu_fft_unpack_piece(int64_t n, const float *roots, const float *const *from, float *re, float *im);
// Computes n elements as cpu_fft_pack() does.
void cpu_fft_pack_piece(int64_t n, const float *roots, const float *const *from, float *re, float *im);

// Computes exp(-2 pi i j / n) for j < count, real and imaginary part in turn. Returns false, with an error,
// if memory runs out.
bool cpu_fft_roots(int64_t n, int64_t count, float *out);

// fft_split.c: one long line, on all threads.
enum { FFT_SPLIT_LEAST = 16384 };
struct fft_split;
// Returns whether a line of n numbers is long enough and can be divided.
bool cpu_fft_can_split(int64_t n);
// Makes the plans and tables for such a line, which the caller frees with cpu_fft_split_free(). Returns NULL
// and an error if memory runs out.
struct fft_split *cpu_fft_split(int64_t n);
// Frees them.
void cpu_fft_split_free(struct fft_split *s);
// A line in memory: real parts are `step` bytes apart, and each imaginary part is `apart` bytes after its
// real one.
struct fft_line {
    char *data;
    int64_t step, apart;
};
// Transforms `from` into `to`, which may be the same memory, and multiplies by scale. Returns false, with an
// error, if memory runs out.
bool cpu_fft_split_run(const struct fft_split *s, const struct fft_line *from, const struct fft_line *to,
                       bool inverse, float scale);

// fft_kit.c: what is needed to transform lines of n numbers. Real lines of even length are transformed as
// pairs.
struct fft_kit {
    int64_t n;
    bool real, kept;
    struct fft_plan *plan;   // a line is transformed by one of these two
    struct fft_split *split;
    float *roots; // real: exp(-2 pi i k / n) for k to n / 2
    int users;
    uint64_t used; // the time of the last use
};
// Returns a kit, which other threads may use too, and which is to be given back. Returns NULL and an error if
// memory runs out.
struct fft_kit *cpu_fft_take(int64_t n, bool real);
// Gives a kit back; it is freed if it is not kept and has no other user.
void cpu_fft_give(struct fft_kit *kit);

#endif
