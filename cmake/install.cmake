# install.cmake - what `make install` puts where: libraries, headers, the program, man page, completions, and
# the files by which pkg-config and CMake find them. All of them work from any prefix they are moved to.

include(CMakePackageConfigHelpers)

install(TARGETS libzellige libzellige_static libzellige_model EXPORT zelligeTargets)
if(TARGET zellige)
    install(TARGETS zellige)
endif()
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
install(FILES ${public_headers} model/zellige_model.h model/zellige_nn.h TYPE INCLUDE)

set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/zellige)
install(EXPORT zelligeTargets NAMESPACE zellige:: DESTINATION ${cmake_folder})
configure_package_config_file(cmake/zelligeConfig.cmake.in ${PROJECT_BINARY_DIR}/zelligeConfig.cmake
                              INSTALL_DESTINATION ${cmake_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/zelligeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/zelligeConfig.cmake ${PROJECT_BINARY_DIR}/zelligeConfigVersion.cmake
        DESTINATION ${cmake_folder})

set(pc_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix ${pc_folder} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH pc_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pc_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
foreach(pc zellige zellige_model)
    configure_file(cmake/${pc}.pc.in ${PROJECT_BINARY_DIR}/${pc}.pc @ONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/zellige.pc ${PROJECT_BINARY_DIR}/zellige_model.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(EXISTS ${PROJECT_SOURCE_DIR}/doc/man/zellige.1)
    install(FILES doc/man/zellige.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(TARGET completion)
    set(from ${PROJECT_BINARY_DIR}/completion)
    install(FILES ${from}/zellige.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME zellige)
    install(FILES ${from}/zellige.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _zellige)
    install(FILES ${from}/zellige.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
