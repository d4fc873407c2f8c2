// lend.c - scopes, which hold the results of ops, and the stream that ops record.
//
// A scope is a height of the thread's stack of lent arrays. Ending it releases what was lent above that
// height.

#include "graph/graph.h"

_Thread_local struct recorder recorder;

static void end_thread(void *data) {
    (void)data;
    zl_scope_end((zl_scope){.height = 0});
    memory_free(recorder.lent);
    recorder = (struct recorder){0};
}

bool graph_grow_lent(void) {
    if (!recorder.watched) {
        if (!base_thread_at_exit(end_thread, NULL))
            return false;
        recorder.watched = true;
    }
    return memory_grow(&recorder.lent, &recorder.cap, recorder.len + 1, sizeof(zl_array));
}

zl_scope zl_scope_begin(void) {
    return (zl_scope){.height = recorder.len, .open = 1};
}

zl_scope zl_scope_begin_on(zl_stream stream) {
    zl_scope scope = zl_scope_begin();
    if (stream) {
        scope.open = 2;
        scope.stream = recorder.stream;
        recorder.stream = stream;
    }
    return scope;
}

void zl_scope_end(zl_scope scope) {
    while (recorder.len > scope.height)
        graph_end_lend(recorder.lent[--recorder.len]);
    if (scope.open == 2)
        recorder.stream = scope.stream;
}

zl_array zl_scope_leave(zl_scope scope, zl_array result) {
    if (result)
        graph_lend_again(result);
    zl_scope_end(scope);
    return result ? graph_lend(result) : NULL;
}
