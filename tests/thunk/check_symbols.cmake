# SPDX-License-Identifier: BSD-3-Clause
#
# cmake -DNM=... -DARCHIVE=... -P check_symbols.cmake
# The layer must load everywhere: it may not need libhl-thunk to link, may not name functions that exist nowhere,
# and may not run destructors at exit.

execute_process(COMMAND ${NM} --undefined-only ${ARCHIVE}
    OUTPUT_VARIABLE undefined RESULT_VARIABLE rc ERROR_VARIABLE errors)
if(NOT rc EQUAL 0)
    message(FATAL_ERROR "${NM} failed: ${errors}")
endif()
if(NOT undefined MATCHES "dlopen")
    message(FATAL_ERROR "${ARCHIVE} does not look like the thunk layer: it calls no dlopen")
endif()
if(undefined MATCHES " (hlthunk_[a-z0-9_]*)") # a blank before it: mangled names contain the types of the ABI
    message(FATAL_ERROR "${ARCHIVE} needs ${CMAKE_MATCH_1} at link time")
endif()
if(undefined MATCHES "__cxa_atexit|__cxa_thread_atexit")
    message(FATAL_ERROR "${ARCHIVE} has a static object with a destructor")
endif()

file(STRINGS ${ARCHIVE} hashes REGEX "hlthunk_hash")
if(hashes)
    message(FATAL_ERROR "${ARCHIVE} names hlthunk_hash_*, which no library has")
endif()
file(STRINGS ${ARCHIVE} names REGEX "hlthunk_wait_for_cs")
if(NOT names)
    message(FATAL_ERROR "the search for names in ${ARCHIVE} finds nothing, so its result is worthless")
endif()
