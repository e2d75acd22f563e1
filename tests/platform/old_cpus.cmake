# The tests on emulated x86 CPUs: all test programs on one without AVX, a short list on those that lack one thing.
# May know: run_old_cpu.sh, the targets defined so far.
# Must not know: what the programs test.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  return()
endif()
find_program(HEED_QEMU_X86_64 NAMES qemu-x86_64-static qemu-x86_64 DOC "Emulator for the tests on old CPUs")
if(NOT HEED_QEMU_X86_64)
  message(STATUS "heed: qemu-x86_64-static was not found: the tests on old CPUs will fail, or be skipped with "
                 "HEED_ALLOW_MISSING_EMULATOR=1 in the environment")
endif()

function(heed_add_old_cpu cpu backend what name) # the program and its arguments follow
  string(MAKE_C_IDENTIFIER "old_cpu_${cpu}_${name}" test)
  add_test(NAME ${test} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/run_old_cpu.sh ${HEED_QEMU_X86_64} ${cpu} ${backend}
                                ${what} ${ARGN})
  set_tests_properties(${test} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS old_cpu)
  if(what STREQUAL "verify")
    set_tests_properties(${test} PROPERTIES FIXTURES_REQUIRED heed_native_bits)
  endif()
endfunction()

set(native "${CMAKE_CURRENT_BINARY_DIR}/native.json")
if(TARGET heed_tool)
  add_test(NAME old_cpu_native_bits COMMAND heed_tool verify --quick --write ${native})
  set_tests_properties(old_cpu_native_bits PROPERTIES FIXTURES_SETUP heed_native_bits)
else()
  message(STATUS "heed: without HEED_BUILD_TOOLS the old CPUs' results are not compared with this machine's")
endif()

# What is run on every one of them.
function(heed_add_old_cpu_short cpu backend)
  if(TARGET heed_tool)
    heed_add_old_cpu(${cpu} ${backend} info info $<TARGET_FILE:heed_tool>)
    heed_add_old_cpu(${cpu} ${backend} verify verify $<TARGET_FILE:heed_tool> ${native})
  endif()
  heed_add_old_cpu(${cpu} ${backend} test test_isa $<TARGET_FILE:test_isa>)
  heed_add_old_cpu(${cpu} ${backend} plain host_names_static $<TARGET_FILE:host_names_static>)
endfunction()

# The model before AVX: everything there is.
set(programs)
foreach(folder IN ITEMS tests tests/reference tests/platform)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    get_property(targets DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    list(APPEND programs ${targets})
  endif()
endforeach()
list(FILTER programs INCLUDE REGEX "^test_")
list(REMOVE_ITEM programs test_load test_isa)
heed_add_old_cpu_short(Nehalem scalar)
foreach(program IN LISTS programs)
  heed_add_old_cpu(Nehalem scalar test ${program} $<TARGET_FILE:${program}>)
endforeach()
heed_add_old_cpu(Nehalem scalar plain test_load $<TARGET_FILE:test_load> $<TARGET_FILE:${heed_shared}>)
foreach(program IN ITEMS host_names_shared host_names_forward host_names_backward example_first_attention)
  if(TARGET ${program})
    heed_add_old_cpu(Nehalem scalar plain ${program} $<TARGET_FILE:${program}>)
  endif()
endforeach()

# No AVX at all; AVX only; AVX2 with one thing missing that a kernel or its registers need.
foreach(cpu IN ITEMS Conroe SandyBridge Haswell,-xsave Haswell,-avx Haswell,-avx2 Haswell,-fma Haswell,-f16c
                     Haswell,level=1)
  heed_add_old_cpu_short(${cpu} scalar)
endforeach()
# And one that has it all, so that the emulator is seen to tell them apart.
if(TARGET heed_backend_avx2)
  heed_add_old_cpu_short(Haswell avx2)
endif()
