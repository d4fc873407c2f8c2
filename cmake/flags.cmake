# flags.cmake - how C is compiled here. zellige_public_flags: programs that see only include/; zellige_flags:
# everything inside; zellige_row_flags: the generated row kernels, never instrumented.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# A formula is rounded as written: no contraction anywhere. A multiply-add is fma() where its author wants
# one.
set(float_options -ffp-contract=off)
# gcc 13 keeps 64-bit integers in MMX registers, which are those of long double: its numbers are NaN then.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND float_options -mno-mmx)
endif()

set(warning_options -Wall -Wextra -Wshadow -Wstrict-prototypes -Wold-style-definition -Wmissing-prototypes -Wvla
    -Wundef -Wpointer-arith -Wwrite-strings -Wformat-security -Wno-missing-field-initializers)
if(ZL_WERROR)
    list(APPEND warning_options -Werror)
endif()

set(sanitizer_options "")
if(ZL_SANITIZE)
    set(sanitizer_options -fsanitize=${ZL_SANITIZE} -fno-sanitize-recover=all)
endif()

add_library(zellige_public_flags INTERFACE)
target_compile_definitions(zellige_public_flags INTERFACE _GNU_SOURCE)
target_compile_options(zellige_public_flags INTERFACE ${warning_options} ${float_options} ${sanitizer_options})
target_link_options(zellige_public_flags INTERFACE ${sanitizer_options})

# A section a function: a static program, and the generator, can drop what they do not call.
add_library(zellige_flags INTERFACE)
target_link_libraries(zellige_flags INTERFACE zellige_public_flags)
target_compile_options(zellige_flags INTERFACE -fno-semantic-interposition -ffunction-sections -fdata-sections)
target_compile_definitions(zellige_flags INTERFACE ZL_PLAIN_CALLS) # what defines the ops cannot have macros of their names
target_include_directories(zellige_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

# The flags that also the run-time compiler uses, besides those of a level. Generated code has values that it
# does not use, and passes vectors to functions that are inlined.
add_library(zellige_row_flags INTERFACE)
target_compile_definitions(zellige_row_flags INTERFACE _GNU_SOURCE ZL_PLAIN_CALLS)
target_compile_options(zellige_row_flags INTERFACE -O2 -g0 ${float_options} -fno-math-errno -fno-trapping-math
    ${warning_options} -Wno-unused -Wno-unused-parameter -Wno-psabi -Wno-missing-prototypes)
target_include_directories(zellige_row_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                           ${PROJECT_SOURCE_DIR}/src/device/cpu ${PROJECT_BINARY_DIR}/gen)
