#!/usr/bin/env bash
# harness_itself.sh BUILD - the test harness reports what it should: failed checks with their values, crashes and
# hangs with the test's name, skips with their reason, leaks, errors left behind.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$tmp/test/unit"
cat >"$tmp/test/unit/sample.c" <<'END'
#include <stdlib.h>
#include <unistd.h>
#include "base/base.h"
#include "test.h"
TEST(passes) { CHECK(test_between(3, 3) == 3 && test_uniform(0, 1) < 1); }
TEST(fails) { CHECK_EQ_INT(1 + 1, 3); CHECK_NEAR(1.0, 2.0, 0.5); CHECK_STR("a", "b"); }
TEST(crashes) { abort(); }
TEST(skips) { SKIP("for this reason"); }
TEST(hangs) { sleep(100); }
TEST(leaks) { slab_alloc(32); }
TEST(caches) { static void *kept; if (!kept) kept = slab_alloc(32); }
TEST(leaves_error) { error_set(ZL_ERROR_VALUE, "left over"); }
TEST(takes_error) { CHECK_ERROR(ZL_ERROR_VALUE, error_set(ZL_ERROR_VALUE, "taken")); CHECK_STR(test_last_error(), "taken"); }
TEST(other_error) { CHECK_ERROR(ZL_ERROR_SHAPE, error_set(ZL_ERROR_VALUE, "wrong kind")); }
TEST(folder) { REQUIRE(test_folder()); CHECK(access(test_folder(), W_OK) == 0); }
TEST(samples) {
    int taken = 0;
    for (int i = 0; i < 1000; i++)
        taken += test_samples(4);
    CHECK(test_brief() || getenv("SAMPLED") ? test_step(4) == 4 && test_quick() && taken > 100 && taken < 500 : taken == 1000);
}
TEST(random) { test_note("random %llx", (unsigned long long)test_random()); }
END
for file in few more; do
    cat >"$tmp/test/unit/$file.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
TEST(sleeps) { usleep(300000); }
TEST(speaks) { fputs("  an error\n", stderr); CHECK(!"so"); }
TEST(ends) { exit(3); }
static void at_end(void) { fputs("said at the end\n", stderr); }
TEST(late) { atexit(at_end); }
END
done
harness=$tmp/harness
builds() {
    cc -std=c11 -D_GNU_SOURCE -g -Iinclude -Isrc -Itest "-I$build/gen" "-DZL_TEST_DIR=\"$root/test\"" "-DZL_BUILD_DIR=\"$build\"" -o "$harness" "$tmp"/test/unit/*.c test/*.c \
        test/device/desk.c test/device/tile_trial.c test/device/spirv_files.c \
        "$build/libzellige.a" -lm -lpthread -ldl
}
alike_by_jobs() { # the same words in the same order, but for the seconds
    local jobs
    for jobs in 1 2 3 7; do
        "$harness" --timeout 1 --jobs $jobs -v --except late >"$tmp/jobs" 2>&1
        sed -E 's/[0-9]+\.[0-9]+ s//; s/ +/ /g' "$tmp/jobs" >"$tmp/jobs-$jobs"
        cmp "$tmp/jobs-1" "$tmp/jobs-$jobs" || return
    done
    grep -q '^CRASHED unit/more:ends: exit status 3' "$tmp/jobs" && tail -n 1 "$tmp/jobs" | grep -q '^8 passed, 10 failed, 1 skipped$'
}
side_by_side() { # more than one process sleeps at a time
    local begin=${EPOCHREALTIME/./}
    "$harness" --jobs 2 sleeps && [ $((${EPOCHREALTIME/./} - begin)) -lt 600000 ]
}
leaves_nothing() { mkdir "$tmp/own" && TMPDIR=$tmp/own "$harness" --jobs 2 passes folder && rmdir "$tmp/own"; }
random_of() { "$harness" --seed "$1" random | grep -o 'random [0-9a-f]*'; }
same_seed_same_numbers() { [ "$(random_of 5)" = "$(random_of 5)" ] && [ "$(random_of 5)" != "$(random_of 6)" ]; }

check "builds" builds
"$harness" --timeout 1 unit/sample >"$tmp/out" 2>&1
check "exit status 1" exits 1 "$harness" fails
check "exit status 0" exits 0 "$harness" passes skips
check "unknown option" exits 2 "$harness" --frobnicate
check "prints the seed" says '^seed 7$' "$harness" --seed 7 passes
check "a failed check shows values and place" grep -qE 'sample\.c:6: unit/sample:fails: 1 \+ 1 is 2, but 3 is 3' "$tmp/out"
check "a crash is named" grep -q '^CRASHED unit/sample:crashes: Aborted' "$tmp/out"
check "a hang is named" grep -q '^CRASHED unit/sample:hangs: Aborted' "$tmp/out"
check "a skip gives its reason" grep -q 'skipped unit/sample:skips: for this reason' "$tmp/out"
check "a leak is found" grep -q '^FAILED unit/sample:leaks' "$tmp/out"
check "a cache is no leak" says '^1 passed' "$harness" caches
check "an error left behind is found" grep -q 'the error: left over' "$tmp/out"
check "an error of another kind is found" grep -q 'should fail with error 1, but gave 4: wrong kind' "$tmp/out"
check "the sum" says '^6 passed, 6 failed, 1 skipped$' tail -n 1 "$tmp/out"
check "--list" says '^unit/sample:folder$' "$harness" --list
check "words select" says '^2 passed, 0 failed, 0 skipped$' "$harness" pass takes
check "--except leaves out" says '^1 passed, 0 failed, 0 skipped$' "$harness" --except pass pass takes
check "--except may be repeated" says '^1 passed, 0 failed, 0 skipped$' "$harness" --except pass --except folder pass takes folder
check "--brief takes some cases" says '^1 passed, 0 failed, 0 skipped$' "$harness" --brief samples
check "others take all" says '^1 passed, 0 failed, 0 skipped$' "$harness" --quick samples
check "--sample too, of the tests that it names" says '^1 passed, 0 failed, 0 skipped$' env SAMPLED=1 "$harness" --sample samples samples
check "and all of the others" says '^1 passed, 0 failed, 0 skipped$' "$harness" --sample folder samples
check "a sample of what is not there" says "no test has 'frobnicate' in its name" "$harness" --sample frobnicate passes
check "--times names files and tests" says '^ +[0-9.]+ s  unit/sample:passes$' "$harness" --times 1 passes
check "a word that nothing has" says "no test has 'frobnicate' in its name" "$harness" passes frobnicate
check "is an error" exits 1 "$harness" passes frobnicate
check "processes side by side print the same" alike_by_jobs
check "processes run side by side" side_by_side
check "processes side by side leave nothing behind" leaves_nothing
check "what a process says at its end" says 'said at the end' "$harness" --jobs 2 late
check "no processes at all" exits 2 "$harness" --jobs 0
check "the same seed gives the same numbers" same_seed_same_numbers
finish
