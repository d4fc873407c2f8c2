// profile_ring.c - times of launches that a driver reports once they are done: the launches whose times are
// not read yet, and the clocks.

#include "device/profile/profile.h"

// Compares the clocks: reads the device's between two readings of the host's several times, and keeps the
// pair of readings that are closest. The first of the two is taken as the same moment, so that nothing seems
// to end after the host saw its end.
static bool compare_clocks(struct profile_ring *r, const struct profile_driver *driver, int unit) {
    enum { TRIES = 5 };
    int64_t nearest = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t time, before = clock_ns();
        if (!driver->now(unit, &time))
            return false;
        int64_t apart = clock_ns() - before;
        if (apart < nearest) {
            nearest = apart;
            r->ahead = before - time;
        }
    }
    r->profile = atomic_load(&profile_now);
    return true;
}

static void report_first(struct profile_ring *r, const struct profile_driver *driver, int unit) {
    int at = r->first;
    int64_t begin, end;
    r->first = (at + 1) % PROFILE_RING;
    r->count--;
    if (driver->times(unit, at, r->launch[at].handle, &begin, &end))
        profile_add(&(struct profile_record){.kind = PROFILE_TIME,
                                             .id = r->launch[at].id,
                                             .begin = begin + r->ahead,
                                             .end = end + r->ahead},
                    NULL);
    else
        profile_say(driver->lack);
}

bool profile_ring_wants(struct profile_ring *r, const struct profile_driver *driver, int unit) {
    if (LIKELY(!profile_is_on()) || !profile_work.id)
        return false;
    bool had_error = zl_error();
    bool good = r->profile == atomic_load(&profile_now) || compare_clocks(r, driver, unit);
    if (good && r->count == PROFILE_RING)
        report_first(r, driver, unit);
    if (!good)
        profile_say(driver->lack);
    if (!had_error)
        zl_clear_error();
    return good;
}

int profile_ring_place(const struct profile_ring *r) {
    return (r->first + r->count) % PROFILE_RING;
}

void profile_ring_add(struct profile_ring *r, uint64_t handle) {
    int at = profile_ring_place(r);
    r->launch[at].id = profile_work.id;
    r->launch[at].handle = handle;
    r->count++;
}

void profile_ring_end(struct profile_ring *r, const struct profile_driver *driver, int unit) {
    bool had_error = zl_error();
    while (r->count)
        report_first(r, driver, unit);
    if (!had_error)
        zl_clear_error();
}
