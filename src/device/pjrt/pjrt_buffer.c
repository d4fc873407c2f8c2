// pjrt_buffer.c - typed buffers of the units, and the completion of executions.
//
// A buffer knows when it holds its values, and executions wait for the buffers that they read. So nothing
// here orders work: the events of executions are kept only to wait for all of them.

#include "device/pjrt/pjrt.h"

#include <pthread.h>
#include <string.h>

enum { UNITS = 64, PLACES = 64 };

static int type_of(zl_dtype dtype) {
    static const int type[] = {
        [ZL_BOOL] = PJRT_PRED,   [ZL_UINT8] = PJRT_U8,     [ZL_UINT16] = PJRT_U16,    [ZL_UINT32] = PJRT_U32,
        [ZL_UINT64] = PJRT_U64,  [ZL_INT8] = PJRT_S8,      [ZL_INT16] = PJRT_S16,     [ZL_INT32] = PJRT_S32,
        [ZL_INT64] = PJRT_S64,   [ZL_FLOAT16] = PJRT_F16,  [ZL_BFLOAT16] = PJRT_BF16, [ZL_FLOAT32] = PJRT_F32,
        [ZL_FLOAT64] = PJRT_F64, [ZL_COMPLEX64] = PJRT_C64};
    return type[dtype];
}

// Waits for an event and destroys it.
static bool await(struct pjrt_event *event) {
    PJRT_CALL(Event_Await, wait, .event = event);
    PJRT_CALL(Event_Destroy, end, .event = event);
    return wait_ok && end_ok;
}

static bool forget(struct pjrt_event *event) {
    PJRT_CALL(Event_Destroy, end, .event = event);
    return end_ok;
}

static const int64_t *dims_of(const struct buffer_form *form, int64_t *dim) {
    for (int i = 0; i < form->ndim; i++)
        dim[i] = buffer_form_dim(form, i);
    return dim;
}

// Makes a buffer. Small data is copied by the plugin within the call: waiting would take longer than copying
// twice. If the transfer fails later, so does the work that reads the buffer.
static void *put(int unit, const struct buffer_form *form, const void *from) {
    enum { SMALL = 4096 };
    bool is_small = buffer_form_bytes(form) <= SMALL;
    int64_t dim[HLO_RANK];
    PJRT_CALL(Client_BufferFromHostBuffer, make, .client = pjrt_client(), .data = from,
              .type = type_of((zl_dtype)form->dtype), .dims = dims_of(form, dim), .axes = (size_t)form->ndim,
              .semantics = is_small ? PJRT_COPY_IN_CALL : PJRT_UNTIL_DONE, .device = pjrt_device(unit));
    if (!make_ok)
        return NULL;
    if (make.a.done && !(is_small ? forget(make.a.done) : await(make.a.done))) {
        pjrt_free(unit, make.a.buffer);
        return NULL;
    }
    return make.a.buffer;
}

// Makes a buffer; the spare room of a form is filled with zeros.
void *pjrt_put(int unit, const struct buffer_form *form, const void *from) {
    if (form->bound.axis < 0)
        return put(unit, form, from);
    void *all = memory_alloc(buffer_form_bytes(form));
    if (!all)
        return NULL;
    buffer_form_unpack(form, from, all);
    void *buffer = put(unit, form, all);
    memory_free(all);
    return buffer;
}

// Copies a buffer to the host. Units may store arrays in tiles, so the host's layout is always passed.
static bool get(void *buffer, const struct buffer_form *form, void *to) {
    int64_t order[HLO_RANK];
    PJRT_MAKE(layout, layout, .type = PJRT_LAYOUT_TILED);
    for (int i = 0; i < form->ndim; i++)
        order[i] = form->ndim - 1 - i;
    layout.a.tiled.struct_size = sizeof layout.a.tiled;
    layout.a.tiled.minor_to_major = order;
    layout.a.tiled.axes = (size_t)form->ndim;
    PJRT_CALL(Buffer_ToHostBuffer, copy, .buffer = buffer, .layout = &layout.a, .to = to,
              .bytes = buffer_form_bytes(form));
    return copy_ok && await(copy.a.done);
}

bool pjrt_get(int unit, void *buffer, const struct buffer_form *form, void *to) {
    (void)unit;
    if (form->bound.axis < 0)
        return get(buffer, form, to);
    void *all = memory_alloc(buffer_form_bytes(form));
    bool ok = all && get(buffer, form, all);
    if (ok)
        buffer_form_pack(form, all, to);
    memory_free(all);
    return ok;
}

// A CPU's buffers are in the host's memory, so nothing has to be pinned.
bool pjrt_pin(int unit, void *pages, size_t bytes) {
    (void)unit;
    if (!strcmp(pjrt_platform(), "cpu"))
        return true;
    PJRT_CALL(Client_DmaMap, map, .client = pjrt_client(), .data = pages, .size = bytes);
    return map_ok;
}

void pjrt_unpin(int unit, void *pages) {
    bool had_error = zl_error();
    (void)unit;
    if (!strcmp(pjrt_platform(), "cpu"))
        return;
    PJRT_CALL(Client_DmaUnmap, end, .client = pjrt_client(), .data = pages);
    if (!end_ok && !had_error)
        zl_clear_error();
}

void *pjrt_carry(int unit, void *buffer) {
    PJRT_CALL(Buffer_CopyToDevice, make, .buffer = buffer, .device = pjrt_device(unit));
    return make_ok ? make.a.copy : NULL;
}

void pjrt_free(int unit, void *buffer) {
    bool had_error = zl_error();
    PJRT_CALL(Buffer_Destroy, end, .buffer = buffer);
    (void)unit;
    if (!end_ok && !had_error)
        zl_clear_error();
}

// What is under way -----------------------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    struct pjrt_event **event; // executions that are not known to be done, in order
    int events, cap;
    uint64_t done;          // the number of executions before the first of them
    uint64_t place[PLACES]; // for each mark, the number of executions before it
} submitted[UNITS];

ZL_AT_LOAD {
    for (int i = 0; i < UNITS; i++)
        pthread_mutex_init(&submitted[i].lock, NULL);
}

// Waits for the oldest execution and forgets it. Under the unit's lock.
static bool wait_for_first(int unit) {
    struct pjrt_event *event = submitted[unit].event[0];
    submitted[unit].events--;
    submitted[unit].done++;
    for (int i = 0; i < submitted[unit].events; i++)
        submitted[unit].event[i] = submitted[unit].event[i + 1];
    return await(event);
}

static bool is_ready(struct pjrt_event *event) {
    PJRT_CALL(Event_IsReady, query, .event = event);
    return query_ok && query.a.is_ready;
}

// Adds the event of an execution. A failed execution is reported when its buffers are read.
void pjrt_add_execution(int unit, struct pjrt_event *done) {
    bool had_error = zl_error();
    pthread_mutex_lock(&submitted[unit].lock);
    while (submitted[unit].events && is_ready(submitted[unit].event[0]))
        wait_for_first(unit);
    if (memory_grow(&submitted[unit].event, &submitted[unit].cap, submitted[unit].events + 1,
                    sizeof(struct pjrt_event *))) {
        submitted[unit].event[submitted[unit].events++] = done;
    } else {
        await(done);
        submitted[unit].done++;
    }
    pthread_mutex_unlock(&submitted[unit].lock);
    if (!had_error)
        zl_clear_error();
}

bool pjrt_record(int unit, int lane, int place) {
    (void)lane;
    pthread_mutex_lock(&submitted[unit].lock);
    submitted[unit].place[place] = submitted[unit].done + (uint64_t)submitted[unit].events;
    pthread_mutex_unlock(&submitted[unit].lock);
    return true;
}

bool pjrt_wait(int unit, int lane, int place) {
    bool ok = true;
    (void)lane;
    pthread_mutex_lock(&submitted[unit].lock);
    while (submitted[unit].events && submitted[unit].done < submitted[unit].place[place])
        ok &= wait_for_first(unit);
    pthread_mutex_unlock(&submitted[unit].lock);
    return ok;
}
