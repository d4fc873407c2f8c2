// pjrt_abi.h - the part of PJRT's C interface that Zellige uses, of version 0.114; it fits every version
// since 0.40.
//
// Every struct begins with its size and a list of extensions, which is empty but for that of the table of
// functions. A plugin refuses one that is
// smaller than its own and takes a larger one: PJRT_ROOM is room for members that later versions add, which
// are 0. Offsets and sizes are those of the header of xla-cpu-pjrt 0.0.1.

#ifndef PJRT_ABI_H
#define PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_MAJOR = 0, PJRT_MINOR = 114, PJRT_MINOR_LEAST = 40, PJRT_ROOM = 256 };

struct pjrt_error;
struct pjrt_event;
struct pjrt_client;
struct pjrt_device;
struct pjrt_description;
struct pjrt_buffer;
struct pjrt_executable; // loaded on a device
struct pjrt_compiled;   // not loaded on any device
struct pjrt_topology;

#define PJRT_STRUCT     \
    size_t struct_size; \
    void *extensions;
#define PJRT_TEXT(of) \
    const char *of;   \
    size_t of##_size;

struct pjrt_version {
    PJRT_STRUCT
    int major, minor;
};

enum pjrt_value_type { PJRT_VALUE_TEXT, PJRT_VALUE_INT, PJRT_VALUE_INTS, PJRT_VALUE_FLOAT, PJRT_VALUE_BOOL };
struct pjrt_named_value {
    PJRT_STRUCT
    PJRT_TEXT(name)
    int type; // enum pjrt_value_type
    union {
        const char *text;
        int64_t number;
        const int64_t *list;
        float real;
        bool truth;
    };
    size_t count; // of a text or list; otherwise 1
};

enum pjrt_type {
    PJRT_PRED = 1,
    PJRT_S8,
    PJRT_S16,
    PJRT_S32,
    PJRT_S64,
    PJRT_U8,
    PJRT_U16,
    PJRT_U32,
    PJRT_U64,
    PJRT_F16,
    PJRT_F32,
    PJRT_F64,
    PJRT_BF16,
    PJRT_C64,
};

// When the host's memory may be reused: when the call returns, or when the event of the copy is done.
enum { PJRT_COPY_IN_CALL = 0, PJRT_UNTIL_DONE = 1, PJRT_LAYOUT_TILED = 0 };

struct pjrt_layout {
    PJRT_STRUCT
    struct {
        PJRT_STRUCT
        const int64_t *minor_to_major;
        size_t axes;
        const int64_t *tile_dims;
        const size_t *tile_dim_sizes;
        size_t tiles;
    } tiled;
    int type;
};

struct pjrt_program {
    PJRT_STRUCT
    const char *code;
    size_t code_size;
    PJRT_TEXT(format)
};

struct pjrt_execute_options {
    PJRT_STRUCT
    void *send, *receive;
    size_t sends, receives;
    int launch;
    const int64_t *kept; // arguments that are not donated
    size_t kept_count;
    void *context;
    const char *location;
    size_t tasks;
    int *task;
    int64_t *incarnation;
};

// The arguments of the functions, by name.
struct pjrt_Error_Destroy {
    PJRT_STRUCT struct pjrt_error *error;
};
struct pjrt_Error_Message {
    PJRT_STRUCT const struct pjrt_error *error;
    PJRT_TEXT(message)
};
enum { PJRT_RESOURCE_EXHAUSTED = 8 };
struct pjrt_Error_GetCode {
    PJRT_STRUCT const struct pjrt_error *error;
    int code;
};
struct pjrt_Plugin_Initialize {
    PJRT_STRUCT
};
struct pjrt_Plugin_Attributes {
    PJRT_STRUCT const struct pjrt_named_value *attributes;
    size_t count;
};
struct pjrt_Event_Destroy {
    PJRT_STRUCT struct pjrt_event *event;
};
struct pjrt_Event_IsReady {
    PJRT_STRUCT struct pjrt_event *event;
    bool is_ready;
};
struct pjrt_Event_Await {
    PJRT_STRUCT struct pjrt_event *event;
};
struct pjrt_Client_Create {
    PJRT_STRUCT
    const struct pjrt_named_value *options;
    size_t option_count;
    void *get, *get_data, *put, *put_data;
    struct pjrt_client *client;
    void *try_get, *try_get_data;
};
struct pjrt_Client_Destroy {
    PJRT_STRUCT struct pjrt_client *client;
};
struct pjrt_Client_PlatformName {
    PJRT_STRUCT struct pjrt_client *client;
    PJRT_TEXT(name)
};
struct pjrt_Client_PlatformVersion {
    PJRT_STRUCT struct pjrt_client *client;
    PJRT_TEXT(version)
};
struct pjrt_Client_AddressableDevices {
    PJRT_STRUCT struct pjrt_client *client;
    struct pjrt_device *const *devices;
    size_t count;
};
struct pjrt_Device_GetDescription {
    PJRT_STRUCT struct pjrt_device *device;
    struct pjrt_description *description;
};
struct pjrt_DeviceDescription_Kind {
    PJRT_STRUCT struct pjrt_description *description;
    PJRT_TEXT(kind)
};
struct pjrt_Device_MemoryStats {
    PJRT_STRUCT
    struct pjrt_device *device;
    int64_t in_use;
    struct {
        int64_t value;
        bool is_set;
    } peak, allocations, largest, limit, reserved, peak_reserved, reservable, largest_free, pool, peak_pool;
};
struct pjrt_Client_Compile {
    PJRT_STRUCT
    struct pjrt_client *client;
    const struct pjrt_program *program;
    PJRT_TEXT(options)
    struct pjrt_executable *executable;
};
struct pjrt_LoadedExecutable_Destroy {
    PJRT_STRUCT struct pjrt_executable *executable;
};
struct pjrt_LoadedExecutable_GetExecutable {
    PJRT_STRUCT
    struct pjrt_executable *loaded;
    struct pjrt_compiled *executable;
};
struct pjrt_Executable_Destroy {
    PJRT_STRUCT struct pjrt_compiled *executable;
};
struct pjrt_Executable_Serialize {
    PJRT_STRUCT
    const struct pjrt_compiled *executable;
    PJRT_TEXT(bytes)
    void *serialized; // the object that owns the bytes
    void (*release)(void *serialized);
};
struct pjrt_Executable_DeserializeAndLoad {
    PJRT_STRUCT
    struct pjrt_client *client;
    PJRT_TEXT(bytes)
    struct pjrt_executable *executable;
    PJRT_TEXT(options) // NULL: the options that it was compiled with
};
struct pjrt_LoadedExecutable_Execute {
    PJRT_STRUCT
    struct pjrt_executable *executable;
    struct pjrt_execute_options *options;
    struct pjrt_buffer *const *const *arguments; // for each device
    size_t devices, argument_count;
    struct pjrt_buffer **const *outputs; // for each device
    struct pjrt_event **done;            // for each device; NULL: no events are wanted
    struct pjrt_device *device;          // a device for which it was not compiled
};
struct pjrt_Client_BufferFromHostBuffer {
    PJRT_STRUCT
    struct pjrt_client *client;
    const void *data;
    int type; // enum pjrt_type
    const int64_t *dims;
    size_t axes;
    const int64_t *strides;
    size_t stride_count;
    int semantics;
    struct pjrt_device *device;
    void *memory, *layout;
    struct pjrt_event *done;
    struct pjrt_buffer *buffer;
};
struct pjrt_Buffer_ToHostBuffer {
    PJRT_STRUCT
    struct pjrt_buffer *buffer;
    struct pjrt_layout *layout; // of the host's array
    void *to;
    size_t bytes;
    struct pjrt_event *done;
};
struct pjrt_Buffer_CopyToDevice {
    PJRT_STRUCT
    struct pjrt_buffer *buffer;
    struct pjrt_device *device;
    struct pjrt_buffer *copy;
};
struct pjrt_Client_DmaMap {
    PJRT_STRUCT
    struct pjrt_client *client;
    void *data;
    size_t size;
};
struct pjrt_Client_DmaUnmap {
    PJRT_STRUCT
    struct pjrt_client *client;
    void *data;
};
struct pjrt_Buffer_Destroy {
    PJRT_STRUCT struct pjrt_buffer *buffer;
};

// Compiling for devices that need not be present.
struct pjrt_TopologyDescription_Create {
    PJRT_STRUCT
    PJRT_TEXT(name)
    const struct pjrt_named_value *options;
    size_t option_count;
    struct pjrt_topology *topology;
};
struct pjrt_TopologyDescription_Destroy {
    PJRT_STRUCT struct pjrt_topology *topology;
};
struct pjrt_TopologyDescription_GetDeviceDescriptions {
    PJRT_STRUCT const struct pjrt_topology *topology;
    struct pjrt_description *const *descriptions;
    size_t count;
};
struct pjrt_Compile {
    PJRT_STRUCT
    const struct pjrt_topology *topology;
    const struct pjrt_program *program;
    PJRT_TEXT(options)
    struct pjrt_client *client; // NULL: none
    struct pjrt_compiled *executable;
};
struct pjrt_Executable_GetCostAnalysis {
    PJRT_STRUCT struct pjrt_compiled *executable;
    size_t count;
    const struct pjrt_named_value *properties;
};
struct pjrt_Executable_OptimizedProgram {
    PJRT_STRUCT struct pjrt_compiled *executable;
    struct pjrt_program *program; // first without `code`, which gives its size
};
struct pjrt_Executable_GetCompiledMemoryStats {
    PJRT_STRUCT
    struct pjrt_compiled *executable;
    int64_t code, argument, output, alias, temporary; // bytes of the device
    int64_t host_code, host_argument, host_output, host_alias, host_temporary, peak;
};

struct pjrt_api {
    PJRT_STRUCT
    struct pjrt_version version;
#define USED(name)  struct pjrt_error *(*name)(struct pjrt_##name * arguments);
#define OTHER(name) void *name;
#include "device/pjrt/pjrt_calls.def"
};

// Extensions ------------------------------------------------------------------------------------------------

// A member of the list of extensions of the table of functions.
enum { PJRT_EXTENSION_PROFILER = 1 };
struct pjrt_extension {
    size_t struct_size;
    int type;
    struct pjrt_extension *next;
};

struct pjrt_profiler_error;
struct pjrt_profiler;
// The arguments of the profiler's functions. Plugins check the sizes of those that have `own`, and of no
// others.
struct pjrt_profiler_error_arguments {
    size_t struct_size;
    void *own;
    struct pjrt_profiler_error *error;
};
struct pjrt_profiler_message {
    size_t struct_size;
    void *own;
    const struct pjrt_profiler_error *error;
    const char *message;
    size_t message_size;
};
struct pjrt_profiler_create {
    size_t struct_size;
    const char *options; // ProfileOptions
    size_t options_size;
    struct pjrt_profiler *profiler;
};
struct pjrt_profiler_arguments {
    size_t struct_size;
    struct pjrt_profiler *profiler;
};
struct pjrt_profiler_collect {
    size_t struct_size;
    struct pjrt_profiler *profiler;
    uint8_t *buffer; // an XSpace; that of the plugin, or, if it gives only the size, one for a second call
    size_t buffer_size;
};
struct pjrt_profiler_api {
    size_t struct_size;
    void *own;
    void (*error_destroy)(struct pjrt_profiler_error_arguments *arguments);
    void (*error_message)(struct pjrt_profiler_message *arguments);
    void *error_code;
    struct pjrt_profiler_error *(*create)(struct pjrt_profiler_create *arguments);
    struct pjrt_profiler_error *(*destroy)(struct pjrt_profiler_arguments *arguments);
    struct pjrt_profiler_error *(*start)(struct pjrt_profiler_arguments *arguments);
    struct pjrt_profiler_error *(*stop)(struct pjrt_profiler_arguments *arguments);
    struct pjrt_profiler_error *(*collect)(struct pjrt_profiler_collect *arguments);
};
struct pjrt_profiler_extension {
    struct pjrt_extension base;
    const struct pjrt_profiler_api *api;
    int64_t context;
};

// Whether a plugin's table reaches that far: the table only grows at its end.
#define PJRT_HAS(api, name) \
    (offsetof(struct pjrt_api, name) + sizeof(void *) <= (api)->struct_size && (api)->name)

#endif
