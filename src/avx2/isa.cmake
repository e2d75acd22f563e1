# How CMake builds this folder: see cmake/HeedBackend.cmake.
set(processors x86_64 AMD64 amd64)
set(flags -mavx2 -mfma -mf16c)
