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

# A test that hangs must not eat the time of all others.
set(UCX_GAUDI_TEST_TIMEOUT 300)

# ucx_gaudi_test(NAME n SOURCES ... LIBS ... LABELS ... [ENV "A=B" ...])
#
# A GoogleTest program. Each of its tests is one ctest test and so one process: what a test does to the process
# (environment, loaded libraries, open cards) cannot reach the next one.
function(ucx_gaudi_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS;LABELS;ENV")
    ucx_gaudi_check_test_arguments(NAME SOURCES LABELS)

    add_executable(${arg_NAME} ${arg_SOURCES})
    ucx_gaudi_add_to_groups("${arg_LABELS}" ${arg_NAME})
    target_link_libraries(${arg_NAME} PRIVATE ucx_gaudi_options ${arg_LIBS} GTest::gmock GTest::gtest_main)

    # The test list is made when ctest starts, not at link time: then the build never runs a sanitized program.
    gtest_discover_tests(
        ${arg_NAME}
        TEST_PREFIX "${arg_NAME}/"
        TEST_LIST ${arg_NAME}_tests
        DISCOVERY_MODE PRE_TEST
        DISCOVERY_TIMEOUT 120
        PROPERTIES TIMEOUT ${UCX_GAUDI_TEST_TIMEOUT}
    )

    # Lists do not survive gtest_discover_tests(PROPERTIES), so labels and environment are set by a file that ctest
    # reads after the list.
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_properties.cmake")
    file(
        CONFIGURE
        OUTPUT "${file}"
        CONTENT "if(@arg_NAME@_tests)
    set_tests_properties(\${@arg_NAME@_tests} PROPERTIES
        LABELS [==[@arg_LABELS@]==] ENVIRONMENT [==[@UCX_GAUDI_TEST_ENV@;@arg_ENV@]==])
endif()
"
        @ONLY
    )
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# ucx_gaudi_engine_test(<name> SOURCES ... LIBS ... LABELS ... [ENV "A=B" ...] [ENGINES ...] [RUN option ...])
#
# A GoogleTest program that runs on each of the fetched UCX, started by `ucx_gaudi run`, which sets everything up. It is
# compiled once, against one of them. RUN: further options of `ucx_gaudi run`.
function(ucx_gaudi_engine_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS;LABELS;ENV;ENGINES;RUN")
    ucx_gaudi_check_test_arguments(SOURCES LABELS)
    if(NOT arg_ENGINES)
        set(arg_ENGINES ${UCX_GAUDI_TEST_ENGINES})
    endif()
    set(first "")
    if(UCX_GAUDI_SANITIZE AND arg_RUN)
        ucx_gaudi_runtimes(runtimes)
        set(first env LD_PRELOAD=${runtimes}) # before what --hca preloads
    endif()

    add_library(${name}_objects OBJECT ${arg_SOURCES})
    target_link_libraries(${name}_objects PRIVATE ucx_gaudi_options ${arg_LIBS} GTest::gmock)
    foreach(engine IN LISTS arg_ENGINES)
        set(target ${name}_${engine})
        set(CMAKE_CROSSCOMPILING_EMULATOR ${first} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/ucx_gaudi run --ucx ${engine}
            ${arg_RUN} --)
        ucx_gaudi_test(NAME ${target} SOURCES $<TARGET_OBJECTS:${name}_objects> LIBS ${arg_LIBS} LABELS ${arg_LABELS}
                       ENV ${arg_ENV})
        set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON LINKER_LANGUAGE CXX)
        target_link_options(${target} PRIVATE -Wl,-rpath-link,${UCX_GAUDI_ENGINES}/rapids-1.22/libucx/lib)
        add_dependencies(${target} ucx_gaudi softgaudi softgaudi_stat uct_gaudi ucm_gaudi ucx_perftest_gaudi)
    endforeach()
endfunction()

# ucx_gaudi_command_test(NAME n COMMAND program args... LABELS ... [ENV "A=B" ...])
#
# The same for a program that is not a GoogleTest one: it passes when it exits with 0.
function(ucx_gaudi_command_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "COMMAND;LABELS;ENV")
    ucx_gaudi_check_test_arguments(NAME COMMAND LABELS)

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
                               ENVIRONMENT "${UCX_GAUDI_TEST_ENV};${arg_ENV}"
    )
endfunction()

# ucx_gaudi_add_to_groups(<labels> <target>...): the target test-group-LABEL builds all that the tests with that label run:
# their programs, and the modules, models and commands that programs load and start by name.
function(ucx_gaudi_add_to_groups labels)
    foreach(label IN LISTS labels)
        if(NOT TARGET test-group-${label})
            add_custom_target(test-group-${label})
            set_property(GLOBAL APPEND PROPERTY UCX_GAUDI_TEST_GROUPS ${label})
            foreach(product IN ITEMS ucx_gaudi uct_gaudi ucm_gaudi ucx_perftest_gaudi softgaudi softgaudi_stat softhca
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
