# The toolchain of the packages: zig's clang with a static libc++, for glibc 2.28 and later, whatever this machine has. Nothing
# but headers comes from this machine, and those from UCX_GAUDI_HEADERS, a prefix that has only the libraries of
# cmake/Dependencies.cmake: zig brings the headers of its glibc, and those in /usr/include would hide them.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES UCX_GAUDI_ZIG UCX_GAUDI_HEADERS)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
set(CMAKE_C_COMPILER ${UCX_GAUDI_ZIG} cc)
set(CMAKE_CXX_COMPILER ${UCX_GAUDI_ZIG} c++)
# zig adds a sanitizer where a source is not optimised, and debug information to everything.
set(CMAKE_C_FLAGS_INIT "-target x86_64-linux-gnu.2.28 -fno-sanitize=undefined -g0")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")

set(CMAKE_FIND_ROOT_PATH ${UCX_GAUDI_HEADERS})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
