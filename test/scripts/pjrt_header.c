// pjrt_header.c - compiles if src/device/pjrt/pjrt_abi.h lays out what it has as a published pjrt_c_api.h
// does. Compiled by test/scripts/pjrt_ops.sh, with the header of whichever package brings one.

#include "device/pjrt/pjrt_abi.h"

#include "pjrt_c_api.h"

#define SAME(ours, member, theirs, other)                                                               \
    _Static_assert(offsetof(struct pjrt_##ours, member) == offsetof(theirs, other), #ours "." #member); \
    _Static_assert(sizeof(((struct pjrt_##ours *)0)->member) == sizeof(((theirs *)0)->other),           \
                   #ours "." #member)
#define ARGS(name, member, other) SAME(name, member, PJRT_##name##_Args, other)

// The table: each function in its place, of those that both have. Structs of arguments are no smaller than
// theirs.
#define USED(name)                                                                             \
    _Static_assert(offsetof(struct pjrt_api, name) == offsetof(PJRT_Api, PJRT_##name), #name); \
    _Static_assert(sizeof(struct pjrt_##name) >= PJRT_##name##_Args_STRUCT_SIZE, #name);
#define OTHER(name) _Static_assert(offsetof(struct pjrt_api, name) == offsetof(PJRT_Api, PJRT_##name), #name);
#include "device/pjrt/pjrt_calls.def"

_Static_assert(offsetof(struct pjrt_api, version) == offsetof(PJRT_Api, pjrt_api_version), "version");
SAME(version, major, PJRT_Api_Version, major_version);
SAME(version, minor, PJRT_Api_Version, minor_version);
SAME(named_value, name, PJRT_NamedValue, name);
SAME(named_value, type, PJRT_NamedValue, type);
SAME(named_value, text, PJRT_NamedValue, string_value);
SAME(named_value, number, PJRT_NamedValue, int64_value);
SAME(named_value, real, PJRT_NamedValue, float_value);
SAME(named_value, truth, PJRT_NamedValue, bool_value);
SAME(named_value, count, PJRT_NamedValue, value_size);
SAME(program, code, PJRT_Program, code);
SAME(program, code_size, PJRT_Program, code_size);
SAME(program, format, PJRT_Program, format);
SAME(program, format_size, PJRT_Program, format_size);
SAME(execute_options, launch, PJRT_ExecuteOptions, launch_id);
SAME(execute_options, kept, PJRT_ExecuteOptions, non_donatable_input_indices);
SAME(execute_options, kept_count, PJRT_ExecuteOptions, num_non_donatable_input_indices);
SAME(execute_options, context, PJRT_ExecuteOptions, context);
SAME(layout, tiled, PJRT_Buffer_MemoryLayout, tiled);
SAME(layout, type, PJRT_Buffer_MemoryLayout, type);
SAME(layout, tiled.minor_to_major, PJRT_Buffer_MemoryLayout, tiled.minor_to_major);
SAME(layout, tiled.axes, PJRT_Buffer_MemoryLayout, tiled.minor_to_major_size);
SAME(layout, tiled.tiles, PJRT_Buffer_MemoryLayout, tiled.num_tiles);
ARGS(Error_Message, message, message);
ARGS(Error_Message, message_size, message_size);
ARGS(Error_GetCode, code, code);
ARGS(Event_IsReady, is_ready, is_ready);
ARGS(Client_Create, options, create_options);
ARGS(Client_Create, option_count, num_options);
ARGS(Client_Create, client, client);
ARGS(Client_PlatformName, name, platform_name);
ARGS(Client_AddressableDevices, devices, addressable_devices);
ARGS(Client_AddressableDevices, count, num_addressable_devices);
ARGS(Device_GetDescription, description, device_description);
ARGS(DeviceDescription_Kind, kind, device_kind);
ARGS(Device_MemoryStats, in_use, bytes_in_use);
ARGS(Device_MemoryStats, peak.value, peak_bytes_in_use);
ARGS(Device_MemoryStats, limit.value, bytes_limit);
ARGS(Device_MemoryStats, limit.is_set, bytes_limit_is_set);
ARGS(Client_DmaMap, data, data);
ARGS(Client_DmaMap, size, size);
ARGS(Client_DmaUnmap, data, data);
ARGS(Client_Compile, program, program);
ARGS(Client_Compile, options, compile_options);
ARGS(Client_Compile, executable, executable);
ARGS(LoadedExecutable_Execute, executable, executable);
ARGS(LoadedExecutable_Execute, options, options);
ARGS(LoadedExecutable_Execute, arguments, argument_lists);
ARGS(LoadedExecutable_Execute, devices, num_devices);
ARGS(LoadedExecutable_Execute, argument_count, num_args);
ARGS(LoadedExecutable_Execute, outputs, output_lists);
ARGS(LoadedExecutable_Execute, done, device_complete_events);
ARGS(LoadedExecutable_Execute, device, execute_device);
ARGS(Client_BufferFromHostBuffer, data, data);
ARGS(Client_BufferFromHostBuffer, type, type);
ARGS(Client_BufferFromHostBuffer, dims, dims);
ARGS(Client_BufferFromHostBuffer, axes, num_dims);
ARGS(Client_BufferFromHostBuffer, semantics, host_buffer_semantics);
ARGS(Client_BufferFromHostBuffer, device, device);
ARGS(Client_BufferFromHostBuffer, done, done_with_host_buffer);
ARGS(Client_BufferFromHostBuffer, buffer, buffer);
ARGS(Buffer_ToHostBuffer, buffer, src);
ARGS(Buffer_ToHostBuffer, layout, host_layout);
ARGS(Buffer_ToHostBuffer, to, dst);
ARGS(Buffer_ToHostBuffer, bytes, dst_size);
ARGS(Buffer_ToHostBuffer, done, event);
ARGS(TopologyDescription_Create, name, topology_name);
ARGS(TopologyDescription_Create, options, create_options);
ARGS(TopologyDescription_Create, topology, topology);
ARGS(TopologyDescription_GetDeviceDescriptions, count, num_descriptions);
ARGS(Compile, topology, topology);
ARGS(Compile, program, program);
ARGS(Compile, options, compile_options);
ARGS(Compile, client, client);
ARGS(Compile, executable, executable);
ARGS(Executable_GetCostAnalysis, count, num_properties);
ARGS(Executable_GetCostAnalysis, properties, properties);
ARGS(Executable_OptimizedProgram, program, program);
ARGS(Executable_GetCompiledMemoryStats, code, generated_code_size_in_bytes);
ARGS(Executable_GetCompiledMemoryStats, temporary, temp_size_in_bytes);

_Static_assert((int)PJRT_VALUE_TEXT == (int)PJRT_NamedValue_kString, "text");
_Static_assert((int)PJRT_VALUE_FLOAT == (int)PJRT_NamedValue_kFloat, "float");
_Static_assert((int)PJRT_VALUE_BOOL == (int)PJRT_NamedValue_kBool, "bool");
_Static_assert((int)PJRT_PRED == (int)PJRT_Buffer_Type_PRED, "pred");
_Static_assert((int)PJRT_S8 == (int)PJRT_Buffer_Type_S8 && (int)PJRT_S64 == (int)PJRT_Buffer_Type_S64,
               "signed");
_Static_assert((int)PJRT_U8 == (int)PJRT_Buffer_Type_U8 && (int)PJRT_U64 == (int)PJRT_Buffer_Type_U64,
               "unsigned");
_Static_assert((int)PJRT_F16 == (int)PJRT_Buffer_Type_F16 && (int)PJRT_F32 == (int)PJRT_Buffer_Type_F32,
               "floats");
_Static_assert((int)PJRT_F64 == (int)PJRT_Buffer_Type_F64 && (int)PJRT_BF16 == (int)PJRT_Buffer_Type_BF16,
               "floats");
_Static_assert((int)PJRT_C64 == (int)PJRT_Buffer_Type_C64, "complex");
_Static_assert((int)PJRT_COPY_IN_CALL == (int)PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, "semantics");
_Static_assert((int)PJRT_UNTIL_DONE == (int)PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
               "semantics");
_Static_assert((int)PJRT_LAYOUT_TILED == (int)PJRT_Buffer_MemoryLayout_Type_Tiled, "layout");
_Static_assert((int)PJRT_RESOURCE_EXHAUSTED == (int)PJRT_Error_Code_RESOURCE_EXHAUSTED, "code");

int main(void) {
    return 0;
}
