# generated.cmake - what the build reads from .def files, and what zellige-gen writes for it.

set(ROW_SHARDS 8) # files that `zellige-gen rows` spreads the row kernels over: rows_0.c ... rows_7.c

# Names of the lines DEVICE(name) of devices.def.
function(zl_read_devices out)
    set(file ${PROJECT_SOURCE_DIR}/src/device/devices.def)
    set(names)
    if(EXISTS ${file})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        file(STRINGS ${file} lines REGEX "^DEVICE\\(")
        foreach(line ${lines})
            string(REGEX REPLACE "^DEVICE\\( *([A-Za-z0-9_]+).*" "\\1" name "${line}")
            list(APPEND names ${name})
        endforeach()
    endif()
    set(${out} ${names} PARENT_SCOPE)
endfunction()

# The path or target of a zellige-gen that runs on this machine; empty when there is none yet.
function(zl_generator out)
    if(ZL_GEN)
        set(${out} ${ZL_GEN} PARENT_SCOPE)
    elseif(NOT EXISTS ${PROJECT_SOURCE_DIR}/tool/gen.c)
        message(WARNING "tool/gen.c is missing: no row kernels are built")
        set(${out} "" PARENT_SCOPE)
    elseif(CMAKE_CROSSCOMPILING)
        include(ExternalProject)
        set(program ${PROJECT_BINARY_DIR}/host/zellige-gen)
        ExternalProject_Add(zellige_host_gen
            SOURCE_DIR ${PROJECT_SOURCE_DIR}
            BINARY_DIR ${PROJECT_BINARY_DIR}/host
            CMAKE_ARGS -DCMAKE_C_COMPILER=${ZL_HOST_CC} -DCMAKE_BUILD_TYPE=Release -DZL_DEV=OFF
            BUILD_COMMAND ${CMAKE_COMMAND} --build <BINARY_DIR> --target zellige-gen
            BUILD_BYPRODUCTS ${program}
            BUILD_ALWAYS ON
            INSTALL_COMMAND "")
        set(${out} ${program} PARENT_SCOPE)
    else()
        # Ops gather their signatures in a section, so all objects are linked; what only runs programs, and calls
        # what is not here, is dropped again.
        file(GLOB gen_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tool/gen*.c)
        add_executable(zellige-gen ${gen_sources} $<TARGET_OBJECTS:zellige_core_objects>)
        target_include_directories(zellige-gen PRIVATE ${PROJECT_SOURCE_DIR})
        target_link_libraries(zellige-gen PRIVATE zellige_flags m Threads::Threads ${CMAKE_DL_LIBS})
        target_link_options(zellige-gen PRIVATE -Wl,--gc-sections)
        set(${out} zellige-gen PARENT_SCOPE)
    endif()
endfunction()

# Runs the generator for gen/rows_*.c and gen/vec_text.c. out: the sources that belong to the device objects.
function(zl_generated out generator)
    if(NOT generator)
        set(${out} "" PARENT_SCOPE)
        return()
    endif()
    set(program ${generator})
    if(TARGET ${generator})
        set(program $<TARGET_FILE:${generator}>)
    endif()
    set(script ${PROJECT_SOURCE_DIR}/cmake/generate.cmake)
    set(rows ${gen}/rows.h)
    math(EXPR last "${ROW_SHARDS} - 1")
    foreach(shard RANGE ${last})
        list(APPEND rows ${gen}/rows_${shard}.c)
    endforeach()
    file(GLOB vec_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cpu/vec/*)
    foreach(mode rows vec)
        set(outputs ${rows})
        set(inputs)
        if(mode STREQUAL "vec")
            set(outputs ${gen}/vec_text.c)
            set(inputs ${vec_headers})
        endif()
        add_custom_command(OUTPUT ${outputs}
            COMMAND ${CMAKE_COMMAND} -DGENERATOR=${program} -DMODE=${mode} -DOUT=${gen} -P ${script}
            DEPENDS ${generator} ${script} ${inputs}
            WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
            COMMENT "Generating ${mode}" VERBATIM COMMAND_EXPAND_LISTS)
        list(APPEND all ${outputs})
    endforeach()
    add_custom_target(zellige_generated DEPENDS ${all})
    set(${out} ${gen}/vec_text.c PARENT_SCOPE)
endfunction()

# A C file with the texts of the files that match, as a table of `struct type` that the header declares; hash: its rows have hashes.
# out: that file.
function(zl_embed out type header hash)
    zl_glob(files ${ARGN})
    set(source ${gen}/${type}s.c)
    string(REPLACE ";" "|" joined "${files}")
    set(script ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
    add_custom_command(OUTPUT ${source}
        COMMAND ${CMAKE_COMMAND} -DOUT=${source} "-DFILES=${joined}" -DTYPE=${type} -DHEADER=${header} -DHASH=${hash} -P ${script}
        DEPENDS ${script} ${files} COMMENT "Embedding files" VERBATIM)
    set(${out} ${source} PARENT_SCOPE)
endfunction()

# Several targets compile the same generated files: they are made before any of them starts.
function(zl_generated_first)
    if(TARGET zellige_generated)
        foreach(target ${ARGN})
            add_dependencies(${target} zellige_generated)
        endforeach()
    endif()
endfunction()

# The architecture as levels.def spells it.
function(zl_architecture out)
    string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" arch)
    if(arch MATCHES "^(arm64|aarch64)")
        set(arch aarch64)
    elseif(arch MATCHES "^(amd64|x86_64)")
        set(arch x86_64)
    endif()
    set(${out} ${arch} PARENT_SCOPE)
endfunction()

# Compiles every shard once a level of this architecture. out: their objects. Writes gen/levels_built.def.
function(zl_row_objects out)
    include(CheckCCompilerFlag)
    zl_architecture(arch)
    set(file ${PROJECT_SOURCE_DIR}/src/device/cpu/levels.def)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^LEVEL\\(")
    set(built "// Made by the build from levels.def: the levels that this library has.\n")
    set(native_levels 0)
    foreach(line ${lines})
        if(NOT line MATCHES "^LEVEL\\( *([a-z0-9_]+) *, *([a-z0-9_]+) *, *\"([^\"]*)\" *\\)")
            message(FATAL_ERROR "levels.def: not LEVEL(name, arch, \"flags\"): ${line}")
        endif()
        set(level ${CMAKE_MATCH_1})
        set(level_arch ${CMAKE_MATCH_2})
        set(flag_text "${CMAKE_MATCH_3}")
        separate_arguments(flags UNIX_COMMAND "${flag_text}")
        if(NOT level_arch MATCHES "^(any|${arch})$")
            continue()
        endif()
        if(ZL_LEVELS AND NOT level IN_LIST ZL_LEVELS)
            continue()
        endif()
        if(level_arch STREQUAL arch)
            math(EXPR native_levels "${native_levels} + 1")
            if(ZL_SANITIZE AND native_levels GREATER 1)
                continue() # sanitizers look at what is above the kernels
            endif()
        endif()
        if(flag_text)
            check_c_compiler_flag("${flag_text}" zl_level_${level})
            if(NOT zl_level_${level})
                message(WARNING "level ${level} is left out: the compiler does not know ${flags}")
                continue()
            endif()
        endif()
        string(APPEND built "${line}\n")
        set(flags_of_${level} ${flags})
        list(APPEND levels ${level})
        list(APPEND found $<TARGET_OBJECTS:zellige_rows_${level}>)
    endforeach()
    if(TARGET zellige_generated)
        add_subdirectory(cmake/rows)
    else()
        set(found)
    endif()
    file(CONFIGURE OUTPUT ${gen}/levels_built.def CONTENT "${built}#undef LEVEL\n" @ONLY)
    zl_generated_first(zellige_device_objects)
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# For programs that look inside: the objects themselves, and every header.
function(zl_link_internals target)
    target_sources(${target} PRIVATE ${objects})
    target_include_directories(${target} PRIVATE ${gen})
    target_link_libraries(${target} PRIVATE zellige_flags ${system_libraries})
    zl_generated_first(${target})
endfunction()
