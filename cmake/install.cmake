# Installing: the library, its header, a CMake package and a pkg-config file, all relocatable.
include(CMakePackageConfigHelpers)

# Each kind of library has its own list of targets, because what they need differs (heed-config.cmake.in).
set(heed_package ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
foreach(target IN ITEMS heed heed_other)
  if(TARGET ${target})
    get_target_property(type ${target} TYPE)
    string(REGEX REPLACE "_LIBRARY" "" kind ${type})
    string(TOLOWER ${kind} kind)
    set_target_properties(${target} PROPERTIES EXPORT_NAME heed_${kind})
    install(TARGETS ${target} EXPORT heed-${kind}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heed)
    install(EXPORT heed-${kind} NAMESPACE heed:: FILE heed-${kind}.cmake DESTINATION ${heed_package})
  endif()
endforeach()

get_target_property(type heed TYPE)
string(REGEX REPLACE "_LIBRARY" "" HEED_KIND ${type})
string(TOLOWER ${HEED_KIND} HEED_KIND)
configure_package_config_file(cmake/heed-config.cmake.in heed-config.cmake INSTALL_DESTINATION ${heed_package})
write_basic_package_version_file(heed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heed-config.cmake ${PROJECT_BINARY_DIR}/heed-config-version.cmake cmake/FindSLEEF.cmake
        DESTINATION ${heed_package})

# pkg-config: paths from where the file lies, unless the user gave absolute ones.
set(HEED_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  set(HEED_PC_PREFIX "\${pcfiledir}/${up}")
  string(REGEX REPLACE "/$" "" HEED_PC_PREFIX "${HEED_PC_PREFIX}")
endif()
foreach(kind IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(HEED_PC_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(HEED_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
set(HEED_PC_LIBS_PRIVATE "-lm")
if(HEED_WITH_OPENMP)
  # By the runtime's name: a compiler's own flag may mean another runtime to the user's.  gcc's is where every compiler looks.
  foreach(name IN LISTS OpenMP_C_LIB_NAMES)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
      get_filename_component(folder "${OpenMP_${name}_LIBRARY}" DIRECTORY)
      string(APPEND HEED_PC_LIBS_PRIVATE " -L${folder}")
    endif()
    string(APPEND HEED_PC_LIBS_PRIVATE " -l${name}")
  endforeach()
endif()
if(HEED_WITH_SLEEF) # not Requires.private, which asks for SLEEF's development files even of users of a shared heed
  string(REPLACE ";" " " flags "${SLEEF_LINK_FLAGS}")
  string(PREPEND HEED_PC_LIBS_PRIVATE "${flags} ")
endif()
configure_file(cmake/heed.pc.in heed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
