# SPDX-License-Identifier: BSD-3-Clause
#
# cmake -DROOT=... -P check_callers.cmake
# Only the wrapper calls syscall(): any other caller would have to mind the width of each argument.

cmake_minimum_required(VERSION 3.25)

set(wrapper src/os/system_call.h)
set(patterns "")
foreach(directory IN ITEMS bench examples soft src tests)
    foreach(ending IN ITEMS c cpp h)
        list(APPEND patterns ${ROOT}/${directory}/*.${ending})
    endforeach()
endforeach()
file(GLOB_RECURSE sources RELATIVE ${ROOT} LIST_DIRECTORIES false ${patterns})

set(callers "")
foreach(source IN LISTS sources)
    file(STRINGS ${ROOT}/${source} lines REGEX "(^|[^A-Za-z0-9_])syscall *\\(")
    if(lines)
        list(APPEND callers ${source})
    endif()
endforeach()

if(NOT wrapper IN_LIST callers)
    message(FATAL_ERROR "the search does not find the call in ${wrapper}, so its result is worthless")
endif()
list(REMOVE_ITEM callers ${wrapper})
if(callers)
    list(JOIN callers ", " names)
    message(FATAL_ERROR "use gaudi::os::system_call (${wrapper}) instead of syscall in ${names}")
endif()
