find_package(GTest REQUIRED)
include(GoogleTest)

# The UCX that tests run on, and those of them that have UCX's ib module. A sanitizer and a further compiler look at our
# code, which is the same on all of them.
set(UCX_GAUDI_TEST_ENGINES rapids nixl-1.22 nixl-1.23)
set(UCX_GAUDI_IB_ENGINES nixl-1.22 nixl-1.23)
if(UCX_GAUDI_SANITIZE OR UCX_GAUDI_SHORT_TESTS)
    set(UCX_GAUDI_TEST_ENGINES rapids)
    set(UCX_GAUDI_IB_ENGINES nixl-1.23)
endif()

# A test that hangs must not eat the time of all others, and a slow machine with more tests than cores must not fail
# one: most take less than a second, and a few start dozens of processes.
set(UCX_GAUDI_TEST_TIMEOUT 600)

# The headers that most tests include, compiled once: two thirds of the time to compile a test went into them.
if(UCX_GAUDI_PRECOMPILE)
    add_library(test_headers OBJECT ${PROJECT_SOURCE_DIR}/tests/headers.cpp)
    # Flags as a program has them, or the compiler refuses the result.
    set_target_properties(test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF EXCLUDE_FROM_ALL ON)
    target_compile_options(test_headers PRIVATE -fPIE ${UCX_GAUDI_TEST_OPTIONS})
    target_link_libraries(test_headers PRIVATE ucx_gaudi_options GTest::gmock)
    target_precompile_headers(test_headers PRIVATE ${PROJECT_SOURCE_DIR}/tests/headers.h)
endif()

# ucx_gaudi_test(NAME n SOURCES ... LIBS ... LABELS ... [ENV "A=B" ...] [SANITIZERS ...] [PROCESSORS n])
#
# A GoogleTest program. Each of its tests is one ctest test and so one process: what a test does to the process
# (environment, loaded libraries, open cards) cannot reach the next one.
# SANITIZERS: those under which the tests can find something (address, thread or none; all of them by default). Under the
# others the program is not built. PROCESSORS: how many cores a test keeps busy.
function(ucx_gaudi_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PROCESSORS" "SOURCES;LIBS;LABELS;ENV;SANITIZERS")
    ucx_gaudi_check_test_arguments(NAME SOURCES LABELS)

    ucx_gaudi_test_program(${arg_NAME} "${arg_SOURCES}" "${arg_LIBS}")
    ucx_gaudi_is_tested(tested "${arg_LABELS}" "${arg_SANITIZERS}")
    if(tested)
        ucx_gaudi_add_to_groups("${arg_LABELS}" ${arg_NAME})
        ucx_gaudi_register_tests(${arg_NAME} ${arg_NAME} "${arg_LABELS}" "${arg_ENV}" "${arg_PROCESSORS}")
    endif()
endfunction()

# ucx_gaudi_engine_test(<name> SOURCES ... LIBS ... LABELS ... [ENV "A=B" ...] [ENGINES ...] [RUN option ...]
#                       [SANITIZERS ...] [PROCESSORS n])
#
# A GoogleTest program that runs on each of the fetched UCX, started by `ucx_gaudi run`, which sets everything up. It is
# compiled once, against one of them. RUN: further options of `ucx_gaudi run`.
function(ucx_gaudi_engine_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "PROCESSORS" "SOURCES;LIBS;LABELS;ENV;ENGINES;RUN;SANITIZERS")
    ucx_gaudi_check_test_arguments(SOURCES LABELS)
    if(NOT arg_ENGINES)
        set(arg_ENGINES ${UCX_GAUDI_TEST_ENGINES})
    endif()
    if(NOT arg_PROCESSORS AND "e2e" IN_LIST arg_LABELS)
        set(arg_PROCESSORS 2) # two processes that poll; more of them beside each other only take each other's time
    endif()
    set(first "")
    if(UCX_GAUDI_SANITIZE AND arg_RUN)
        ucx_gaudi_runtimes(runtimes)
        set(first env LD_PRELOAD=${runtimes}) # before what --hca preloads
    endif()

    ucx_gaudi_test_program(${name} "${arg_SOURCES}" "${arg_LIBS}")
    set_target_properties(${name} PROPERTIES SKIP_BUILD_RPATH ON)
    target_link_options(${name} PRIVATE -Wl,-rpath-link,${UCX_GAUDI_ENGINES}/rapids-1.22/libucx/lib)
    add_dependencies(${name} ucx_gaudi softgaudi softgaudi_stat uct_gaudi ucm_gaudi ucx_perftest_gaudi)
    ucx_gaudi_is_tested(tested "${arg_LABELS}" "${arg_SANITIZERS}")
    if(NOT tested)
        return()
    endif()
    ucx_gaudi_add_to_groups("${arg_LABELS}" ${name})
    foreach(engine IN LISTS arg_ENGINES)
        set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR
            "${first};${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/ucx_gaudi;run;--ucx;${engine};${arg_RUN};--")
        ucx_gaudi_register_tests(${name} ${name}_${engine} "${arg_LABELS}" "${arg_ENV}" "${arg_PROCESSORS}")
    endforeach()
endfunction()

# ucx_gaudi_is_tested(<out> <labels> <sanitizers>): whether tests are part of this build. Those of the group performance
# count allocations, system calls and instructions, and a sanitizer's would be its own.
function(ucx_gaudi_is_tested out labels sanitizers)
    set(${out} ON PARENT_SCOPE)
    if(UCX_GAUDI_SANITIZE AND ("performance" IN_LIST labels
                               OR (sanitizers AND NOT UCX_GAUDI_SANITIZE IN_LIST sanitizers)))
        set(${out} OFF PARENT_SCOPE)
    endif()
endfunction()

function(ucx_gaudi_test_program target sources libraries)
    add_executable(${target} ${sources})
    target_link_libraries(${target} PRIVATE ucx_gaudi_options ${libraries} GTest::gmock GTest::gtest_main)
    if(TARGET test_headers)
        target_precompile_headers(${target} REUSE_FROM test_headers)
    endif()
endfunction()

# ucx_gaudi_register_tests(<target> <prefix> <labels> <env> <processors>): the tests in a program, each as PREFIX/NAME.
function(ucx_gaudi_register_tests target prefix labels env processors)
    # The test list is made when ctest starts, not at link time: then the build never runs a sanitized program.
    gtest_discover_tests(
        ${target}
        TEST_PREFIX "${prefix}/"
        TEST_LIST ${prefix}_tests
        DISCOVERY_MODE PRE_TEST
        DISCOVERY_TIMEOUT 120
        PROPERTIES TIMEOUT ${UCX_GAUDI_TEST_TIMEOUT}
    )

    # Lists do not survive gtest_discover_tests(PROPERTIES), so labels and environment are set by a file that ctest
    # reads after the list.
    if(NOT processors)
        set(processors 1)
    endif()
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${prefix}_properties.cmake")
    file(
        CONFIGURE
        OUTPUT "${file}"
        CONTENT "if(@prefix@_tests)
    set_tests_properties(\${@prefix@_tests} PROPERTIES
        LABELS [==[@labels@]==] ENVIRONMENT [==[@UCX_GAUDI_TEST_ENV@;@env@]==] PROCESSORS @processors@)
endif()
"
        @ONLY
    )
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# ucx_gaudi_command_test(NAME n COMMAND program args... LABELS ... [ENV "A=B" ...] [SANITIZERS ...] [PROCESSORS n])
#
# The same for a program that is not a GoogleTest one: it passes when it exits with 0.
function(ucx_gaudi_command_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PROCESSORS" "COMMAND;LABELS;ENV;SANITIZERS")
    ucx_gaudi_check_test_arguments(NAME COMMAND LABELS)
    ucx_gaudi_is_tested(tested "${arg_LABELS}" "${arg_SANITIZERS}")
    if(NOT tested)
        return()
    endif()
    if(NOT arg_PROCESSORS)
        set(arg_PROCESSORS 1)
    endif()

    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    set(programs "")
    foreach(word IN LISTS arg_COMMAND)
        if(word MATCHES "TARGET_FILE:([^>]+)>")
            list(APPEND programs ${CMAKE_MATCH_1})
        elseif(TARGET ${word})
            list(APPEND programs ${word})
        endif()
    endforeach()
    ucx_gaudi_add_to_groups("${arg_LABELS}" ${programs})
    set_tests_properties(
        ${arg_NAME} PROPERTIES TIMEOUT ${UCX_GAUDI_TEST_TIMEOUT} LABELS "${arg_LABELS}"
                               ENVIRONMENT "${UCX_GAUDI_TEST_ENV};${arg_ENV}" PROCESSORS ${arg_PROCESSORS}
    )
endfunction()

# The target that builds all tests; the default one builds the product alone.
add_custom_target(tests)

# ucx_gaudi_add_to_groups(<labels> <target>...): the target test-group-LABEL builds all that the tests with that label run:
# their programs, and the modules, models and commands that programs load and start by name.
function(ucx_gaudi_add_to_groups labels)
    foreach(label IN LISTS labels)
        if(NOT TARGET test-group-${label})
            add_custom_target(test-group-${label})
            add_dependencies(tests test-group-${label})
            set_property(GLOBAL APPEND PROPERTY UCX_GAUDI_TEST_GROUPS ${label})
            foreach(product IN ITEMS ucx_gaudi gaudi_record uct_gaudi ucm_gaudi ucx_perftest_gaudi softgaudi softgaudi_stat softhca
                                     softhca_stat)
                if(TARGET ${product}) # not all of them in a build without modules
                    add_dependencies(test-group-${label} ${product})
                endif()
            endforeach()
        endif()
        if(ARGN)
            add_dependencies(test-group-${label} ${ARGN})
        endif()
    endforeach()
endfunction()

# ucx_gaudi_runtimes(<out>): the sanitizer's libraries, as LD_PRELOAD takes them. They must come before anything else that
# is preloaded, and be in a program of other people from its start. Without sanitizers it is empty.
function(ucx_gaudi_runtimes out)
    set(names_address libasan.so libubsan.so)
    set(names_thread libtsan.so)
    set(files "")
    foreach(name IN LISTS names_${UCX_GAUDI_SANITIZE})
        execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE file
                        OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
        list(APPEND files "${file}")
    endforeach()
    list(JOIN files ":" files)
    set(${out} "${files}" PARENT_SCOPE)
endfunction()

# ucx_gaudi_preload_env(<out>): what the environment of a test must hold, as a list for its ENV, when it runs programs
# of other people that load our libraries.
function(ucx_gaudi_preload_env out)
    set(${out} "" PARENT_SCOPE)
    ucx_gaudi_runtimes(files)
    if(files)
        # What those programs leak is not our affair.
        set(${out} "LD_PRELOAD=${files}" "ASAN_OPTIONS=halt_on_error=1:detect_leaks=0" PARENT_SCOPE)
    endif()
endfunction()

# A misspelt keyword would otherwise vanish into the argument before it.
macro(ucx_gaudi_check_test_arguments)
    foreach(required IN ITEMS ${ARGN})
        if(NOT arg_${required})
            message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: ${required} is missing")
        endif()
    endforeach()
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: what is '${arg_UNPARSED_ARGUMENTS}'?")
    endif()
endmacro()
