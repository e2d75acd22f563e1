# Builds for AArch64 Linux on another machine and runs what it builds (ctest included) under QEMU's user-mode emulator.
# May know: where Debian puts cross compilers, foreign libraries and the emulator.  Must not know: heed's targets.
#
# Debian, as root (PNG is optional):
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install gcc-aarch64-linux-gnu qemu-user-static libc6-dev:arm64 libgomp1:arm64 libsleef-dev:arm64 libpng-dev:arm64
#
# CC=clang in the environment takes clang.  QEMU_CPU in the environment of a run chooses the CPU (cortex-a53, neoverse-n1,
# a64fx, ...; the emulator's default is "max": everything it knows).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

if(NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
endif()
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu) # for clang; gcc is made for one target
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# Packages of the target, programs of this machine.
set(ENV{PKG_CONFIG_LIBDIR} "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:/usr/share/pkgconfig")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_IGNORE_PREFIX_PATH /usr/local)

find_program(HEED_QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
mark_as_advanced(HEED_QEMU_AARCH64)
if(HEED_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${HEED_QEMU_AARCH64}")
endif()
