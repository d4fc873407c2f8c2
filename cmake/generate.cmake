# generate.cmake - runs zellige-gen beside its place and replaces only what changed, so that nothing is
# compiled anew for the same text. Called by the build: cmake -DGENERATOR=path -DMODE=rows|vec -DOUT=folder -P
# generate.cmake

set(new ${OUT}/new_${MODE})
file(REMOVE_RECURSE ${new})
file(MAKE_DIRECTORY ${new})
set(argument ${new})
if(MODE STREQUAL "vec")
    set(argument ${new}/vec_text.c)
endif()
set(ENV{ASAN_OPTIONS} detect_leaks=0) # a generator may end without freeing
execute_process(COMMAND ${GENERATOR} ${MODE} ${argument} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "${GENERATOR} ${MODE} failed: ${status}")
endif()
if(MODE STREQUAL "rows" AND NOT EXISTS ${new}/rows.h)
    file(WRITE ${new}/rows.h "") # the build expects it
endif()
file(GLOB made RELATIVE ${new} ${new}/*)
foreach(name ${made})
    file(COPY_FILE ${new}/${name} ${OUT}/${name} ONLY_IF_DIFFERENT)
endforeach()
file(REMOVE_RECURSE ${new})
