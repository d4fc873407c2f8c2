// test.h - tests that register themselves.
//
//     TEST(add_broadcasts) {
//         zl_array y = zl_add(zl_scalar(1), zl_scalar(2));
//         CHECK_EQ_F64(zl_item(y), 3);
//         CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(y, ZL_SHAPE(2)));
//     }
//
// A test is known by its file and name, "unit/graph:add_broadcasts"; `build/test graph add_` runs what
// contains one of the words. A failed check is printed and the test goes on. Each test runs in a scope of its
// own, starts with the same random numbers for the same seed, and fails if it leaves an error behind or
// objects alive that it made. Checks may be made from any thread; SKIP and REQUIRE leave the function that
// they stand in.

#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zellige.h"

// Such a build allows no threads in a child of fork().
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#endif

struct test {
    const char *file, *name;
    void (*run)(void);
    int line;
    const char *(*lacks)(void); // why it cannot run here; NULL: it can
    struct test *next;
};
void test_register(struct test *test);

// A file whose tests all need something defines this before it includes any header: what says why they cannot
// run.
#ifndef TEST_LACKS
#define TEST_LACKS NULL
#endif
const char *test_lacks_lapack(void);
// the program zellige, which builds with sanitizers and for emulators leave out
const char *test_lacks_program(void);
const char *test_lacks_itself(void);  // a way to start this program anew, which an emulator does not have

#define TEST(id)                                                                    \
    static void test_body_of_##id(void);                                            \
    __attribute__((constructor)) static void test_register_##id(void) {             \
        static struct test test = {__FILE__, #id, test_body_of_##id, __LINE__, TEST_LACKS, 0}; \
        test_register(&test);                                                       \
    }                                                                               \
    static void test_body_of_##id(void)

// Each returns whether it held, so that a test can say more: if (!CHECK(a)) test_note("x is %d", x);
#define CHECK(condition)        test_check(__FILE__, __LINE__, !!(condition), #condition)
#define CHECK_EQ_INT(a, b)      test_equal_int(__FILE__, __LINE__, (a), (b), #a, #b)
#define CHECK_EQ_F64(a, b)      test_equal_f64(__FILE__, __LINE__, (a), (b), #a, #b)     // NaN equals NaN
#define CHECK_SAME_F64(a, b)    test_same_f64(__FILE__, __LINE__, (a), (b), #a, #b)      // and -0 is not 0
#define CHECK_NEAR(a, b, bound) test_near(__FILE__, __LINE__, (a), (b), (bound), #a, #b) // |a - b| <= bound
#define CHECK_STR(a, b)         test_equal_str(__FILE__, __LINE__, (a), (b), #a, #b)     // NULL equals NULL
#define CHECK_HAS(text, part)   test_has(__FILE__, __LINE__, (text), (part), #text)      // part is in text

// expression gives NULL or false, and the thread's error is of that kind; then the error is cleared, and kept
// for test_last_error().
#define CHECK_ERROR(kind, expression) test_error(__FILE__, __LINE__, (kind), !(expression), #expression)

#define REQUIRE(condition) \
    do { \
        if (!CHECK(condition)) \
            return; \
    } while (0)
#define SKIP(reason) \
    do { \
        test_skip(reason); \
        return; \
    } while (0)

bool test_check(const char *file, int line, bool holds, const char *what);
bool test_equal_int(const char *file, int line, int64_t a, int64_t b, const char *a_text, const char *b_text);
bool test_equal_f64(const char *file, int line, double a, double b, const char *a_text, const char *b_text);
bool test_same_f64(const char *file, int line, double a, double b, const char *a_text, const char *b_text);
bool test_near(const char *file, int line, double a, double b, double bound, const char *a_text,
               const char *b_text);
bool test_equal_str(const char *file, int line, const char *a, const char *b, const char *a_text,
                    const char *b_text);
bool test_has(const char *file, int line, const char *text, const char *part, const char *what);
bool test_error(const char *file, int line, zl_error_kind kind, bool failed, const char *what);
void test_skip(const char *reason);
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *test_last_error(void); // message of the last CHECK_ERROR, "" if there was none

bool test_quick(void); // take a seeded sample: the whole run has 15 s
bool test_brief(void); // take the smallest sizes: the device needs seconds for what others do in milliseconds
// whether to take this case: brief runs, and tests that --sample names, take one of n
bool test_samples(int n);
// n where test_samples takes one of n, else 1: for lists of which some case has to be taken
int test_step(int n);
bool test_long(void);  // take all the time it needs

// Random numbers, the same for the same seed and test.
uint64_t test_seed(void);
uint64_t test_random(void);                    // 64 random bits
double   test_uniform(double lo, double hi);   // lo <= x < hi
int64_t  test_between(int64_t lo, int64_t hi); // lo <= x <= hi

// An empty folder for this test's files, removed after it; NULL if it cannot be made. Files of the source
// tree are under ZL_TEST_DIR, programs and libraries of this build under ZL_BUILD_DIR.
const char *test_folder(void);

// Sets a variable of the environment, or removes it where value is NULL, when the work of this thread's
// stream is done: a thread that reads the environment, as PoCL's do while they compile, must not meet another
// that changes it.
void test_setenv(const char *name, const char *value);

// Runs a command of the shell, for as long as the test may take, and returns what it printed, to be freed
// with memory_free. *status is 0 if it ended well.
char *test_shell(const char *command, int *status);

#endif
