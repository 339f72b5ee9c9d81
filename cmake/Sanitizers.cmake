# Sanitizers cover the whole build, libraries and programs alike: a sanitized library does not load into a plain
# program. UCX_GAUDI_TEST_ENV is what every test needs in its environment.
set(UCX_GAUDI_TEST_ENV "")
# gcc's wrapper of process_vm_readv takes the other process's addresses for ours.
set(without_cma "UCX_MODULES=^cma")

if(UCX_GAUDI_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all)
    add_link_options(-fsanitize=address,undefined)
    # ASan's allocator returns pages to the kernel by system calls that UCX's memory hooks do not see, so that host memory
    # stays mapped into a card whose pages are no longer the program's: here they are kept.
    set(UCX_GAUDI_TEST_ENV
        "ASAN_OPTIONS=halt_on_error=1:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:allocator_release_to_os_interval_ms=-1"
        "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1"
        ${without_cma}
    )
elseif(UCX_GAUDI_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
    set(UCX_GAUDI_TEST_ENV
        "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1"
        ${without_cma}
        "UCX_MEM_MMAP_HOOK_MODE=none" # stock UCX crashes at exit under TSan with its hooks in
    )
elseif(UCX_GAUDI_SANITIZE)
    message(FATAL_ERROR "UCX_GAUDI_SANITIZE is '${UCX_GAUDI_SANITIZE}'; it may be empty, address or thread")
endif()

# No verification record of the user who runs the tests.
list(APPEND UCX_GAUDI_TEST_ENV "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/no-records")

if(UCX_GAUDI_SANITIZE)
    add_compile_options(-fno-omit-frame-pointer)
    # GCC's own manual: its instrumentation makes this warning report what is not there.
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
    add_compile_options($<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-maybe-uninitialized>)
endif()

if(UCX_GAUDI_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "UCX_GAUDI_FUZZ needs clang: use the preset 'fuzz'")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link) # libFuzzer sees coverage only of code compiled so
endif()

# ucx_gaudi_fuzzer(NAME n SOURCES ... [LIBS ...]): a libFuzzer program. Call it only where UCX_GAUDI_FUZZ is on.
function(ucx_gaudi_fuzzer)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS")
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE ucx_gaudi_options ${arg_LIBS})
    target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
endfunction()
