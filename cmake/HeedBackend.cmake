# The backends: which there are, which this build has, how each is compiled.  Only their objects see instruction-set flags, and
# they are kept out of link-time optimisation, which could move their instructions into functions that run on every CPU.
# May know: the folders src/NAME.  Must not know: instruction sets; those are named in src/NAME/isa.cmake.
include(CheckCSourceCompiles)

# All there are, best first: the order in which dispatch.c tries them; scalar, which is always there, comes behind.  Each is a
# folder src/NAME with vec.h, backend.c and isa.cmake, which sets
#   processors  the values of CMAKE_SYSTEM_PROCESSOR that can have it
#   flags       for the compiler; it may look at `compiler`, a CMAKE_C_COMPILER_ID
set(heed_known_backends avx512 avx2 neon)

# heed_backend_flags(NAME OUT [COMPILER-ID]): its compiler flags, for the compiler of this build unless another is named.
function(heed_backend_flags name out)
  set(compiler ${ARGN})
  if(NOT compiler)
    set(compiler ${CMAKE_C_COMPILER_ID})
  endif()
  set(flags)
  include("${PROJECT_SOURCE_DIR}/src/${name}/isa.cmake" OPTIONAL) # scalar has none
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()

# The backends this target can have, best first.
function(heed_default_backends out)
  set(backends)
  foreach(name IN LISTS heed_known_backends)
    include("${PROJECT_SOURCE_DIR}/src/${name}/isa.cmake")
    if(CMAKE_SYSTEM_PROCESSOR IN_LIST processors)
      list(APPEND backends ${name})
    endif()
  endforeach()
  list(APPEND backends scalar)
  set(${out} "${backends}" PARENT_SCOPE)
endfunction()

# What HEED_BACKENDS asks for, best first whatever its order, and scalar.
function(heed_select_backends out)
  set(unknown ${HEED_BACKENDS})
  list(REMOVE_ITEM unknown ${heed_known_backends} scalar)
  if(unknown)
    string(REPLACE ";" ", " known "${heed_known_backends};scalar")
    message(FATAL_ERROR "HEED_BACKENDS: there is no backend '${unknown}'; known are ${known}")
  endif()
  set(backends)
  foreach(name IN LISTS heed_known_backends)
    if(name IN_LIST HEED_BACKENDS)
      list(APPEND backends ${name})
    endif()
  endforeach()
  list(APPEND backends scalar)
  set(${out} "${backends}" PARENT_SCOPE)
endfunction()

# heed_add_backend(NAME): compiles src/NAME/backend.c into the library, or says why not.
function(heed_add_backend name)
  heed_backend_flags(${name} flags)
  string(REPLACE ";" " " CMAKE_REQUIRED_FLAGS "${flags}")
  check_c_source_compiles("int main(void) { return 0; }" HEED_COMPILER_HAS_${name})
  if(NOT HEED_COMPILER_HAS_${name})
    message(WARNING "heed: the compiler refuses ${flags}: no ${name} backend")
    return()
  endif()
  add_library(heed_backend_${name} OBJECT "${PROJECT_SOURCE_DIR}/src/${name}/backend.c")
  heed_common_properties(heed_backend_${name})
  target_compile_options(heed_backend_${name} PRIVATE ${flags} -fno-lto)
  if(NOT CMAKE_BUILD_TYPE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    # The register tile needs full unrolling and registers: unoptimised kernels are a hundred times slower.
    target_compile_options(heed_backend_${name} PRIVATE -O2)
  endif()
  set_property(GLOBAL APPEND PROPERTY HEED_OBJECTS $<TARGET_OBJECTS:heed_backend_${name}>)
  set_property(GLOBAL APPEND_STRING PROPERTY HEED_BACKEND_ROWS "HEED_ROW(${name})")
endfunction()
