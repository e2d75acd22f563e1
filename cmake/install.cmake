# Installing: the library, its header, a CMake package and a pkg-config file, all relocatable.
include(CMakePackageConfigHelpers)

install(TARGETS heed EXPORT heed-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heed)
install(EXPORT heed-targets NAMESPACE heed:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heed)

get_target_property(HEED_LIBRARY_TYPE heed TYPE)
configure_package_config_file(cmake/heed-config.cmake.in heed-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
write_basic_package_version_file(heed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heed-config.cmake ${PROJECT_BINARY_DIR}/heed-config-version.cmake cmake/FindSLEEF.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heed)

# pkg-config: paths relative to the prefix unless the user gave absolute ones.
set(HEED_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
foreach(kind IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(HEED_PC_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(HEED_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
set(HEED_PC_LIBS_PRIVATE "-lm")
if(HEED_WITH_OPENMP)
  string(APPEND HEED_PC_LIBS_PRIVATE " ${OpenMP_C_FLAGS}")
endif()
set(HEED_PC_REQUIRES_PRIVATE "")
if(HEED_WITH_SLEEF)
  set(HEED_PC_REQUIRES_PRIVATE "sleef")
endif()
configure_file(cmake/heed.pc.in heed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
