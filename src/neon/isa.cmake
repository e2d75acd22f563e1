# How CMake builds this folder: see cmake/HeedBackend.cmake.
set(processors aarch64 arm64 ARM64)
set(flags)
if(compiler STREQUAL "GNU")
  # gcc's first scheduling knows no limit of registers: it interleaves the exps of four vectors, which the text keeps apart
  # in pairs, until sums and constants are left in memory.  (gcc 12; the tile loops come out the same.)
  set(flags -fno-schedule-insns)
endif()
