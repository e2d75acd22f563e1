# Finds SLEEF, by its own CMake package where there is one, else by pkg-config (Debian ships no CMake package), and offers it
# as SLEEF::sleef; SLEEF_LINK_FLAGS is the same for a linker's command line.  heed calls the deterministic functions
# (Sleef_finz_*), present since SLEEF 3.5.
find_package(sleef CONFIG QUIET)
if(TARGET sleef::sleef)
  set(SLEEF_LIBRARY sleef::sleef)
  set(SLEEF_VERSION "${sleef_VERSION}")
  set(SLEEF_PROVIDER "CMake package")
  set(SLEEF_LINK_FLAGS -lsleef)
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(SLEEF_PC QUIET IMPORTED_TARGET sleef>=3.5)
  endif()
  if(SLEEF_PC_FOUND)
    set(SLEEF_LIBRARY PkgConfig::SLEEF_PC)
    set(SLEEF_VERSION "${SLEEF_PC_VERSION}")
    set(SLEEF_PROVIDER "pkg-config")
    set(SLEEF_LINK_FLAGS ${SLEEF_PC_LDFLAGS})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SLEEF REQUIRED_VARS SLEEF_LIBRARY VERSION_VAR SLEEF_VERSION)

if(SLEEF_FOUND AND NOT TARGET SLEEF::sleef)
  add_library(SLEEF::sleef INTERFACE IMPORTED)
  set_target_properties(SLEEF::sleef PROPERTIES INTERFACE_LINK_LIBRARIES "${SLEEF_LIBRARY}")
endif()
