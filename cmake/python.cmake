# python.cmake - the extension module zellige.core, in build/python/zellige beside the Python files, ready for PYTHONPATH;
# `pip install .` (scikit-build-core, which sets SKBUILD) puts the same into a wheel, with the program zellige. Both contain
# the library, so that they need nothing else at run time.

find_package(Python3 3.10 COMPONENTS Interpreter Development.Module QUIET)
if(NOT Python3_Development.Module_FOUND)
    message(STATUS "No Python 3.10 with headers was found: zellige.core is left out")
    return()
endif()

set(bindings ${gen}/bindings.c)
add_custom_command(OUTPUT ${bindings}
    COMMAND ${generator} bindings ${bindings}
    DEPENDS ${generator} COMMENT "Generating bindings" VERBATIM)

zl_glob(ext_sources python/ext/*.c)
Python3_add_library(python_core MODULE WITH_SOABI ${ext_sources} ${bindings} ${objects} $<TARGET_OBJECTS:zellige_model_objects>)
zl_generated_first(python_core)
set(package ${PROJECT_BINARY_DIR}/python/zellige)
set_target_properties(python_core PROPERTIES OUTPUT_NAME core LIBRARY_OUTPUT_DIRECTORY ${package})
target_include_directories(python_core PRIVATE include model python/ext)
add_library(zellige_python_flags INTERFACE)
target_compile_options(zellige_python_flags INTERFACE -Wno-write-strings) # Python takes names of keywords as char *
target_link_libraries(python_core PRIVATE zellige_public_flags zellige_python_flags ${system_libraries})
target_compile_options(python_core PRIVATE -fno-semantic-interposition)
target_link_options(python_core PRIVATE -Wl,--exclude-libs,ALL)

set(stubs ${package}/core.pyi)
add_custom_command(OUTPUT ${stubs}
    COMMAND ${generator} stubs ${stubs}
    DEPENDS ${generator} python/stubs/core.pyi WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "Generating stubs" VERBATIM)

zl_glob(python_files python/zellige/*.py python/zellige/py.typed python/zellige/*/*.py)
foreach(file ${python_files})
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/python OUTPUT_VARIABLE name)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/${name}
        COMMAND ${CMAKE_COMMAND} -E copy ${file} ${PROJECT_BINARY_DIR}/python/${name}
        DEPENDS ${file} VERBATIM)
    list(APPEND python_copies ${PROJECT_BINARY_DIR}/python/${name})
endforeach()
add_custom_target(python ALL DEPENDS python_core ${stubs} ${python_copies})

# What a wheel has; `make install` leaves Python alone.
install(TARGETS python_core LIBRARY DESTINATION zellige COMPONENT python EXCLUDE_FROM_ALL)
install(DIRECTORY ${package}/ DESTINATION zellige COMPONENT python EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed")
if(SKBUILD)
    add_dependencies(python zellige)
    install(TARGETS zellige RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python EXCLUDE_FROM_ALL)
endif()
