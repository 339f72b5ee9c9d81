# ucx_gaudi_options: every target of the project links it (PRIVATE) to be compiled by the project's rules.
add_library(ucx_gaudi_options INTERFACE)
target_compile_features(ucx_gaudi_options INTERFACE cxx_std_20)
target_compile_options(
    ucx_gaudi_options
    INTERFACE -Wall
              -Wextra
              $<$<BOOL:${UCX_GAUDI_WERROR}>:-Werror>
              -fvisibility=hidden
              $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>
              $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>
              $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
              $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety> # g++ has no such analysis
)
# Debug builds, those with sanitizers among them, check the order of locks (src/os/lock_rank.h). Every target must be
# compiled alike: a mutex then knows its rank.
target_compile_definitions(ucx_gaudi_options INTERFACE $<$<CONFIG:Debug>:GAUDI_LOCK_RANKS=1>)

include(CheckLinkerFlag)
check_linker_flag(CXX -Wl,--exclude-libs,libstdc++.a UCX_GAUDI_HAS_EXCLUDE_LIBS)

# ucx_gaudi_loadable(TARGET MAP): for a shared library that is loaded into other people's programs. It exports exactly
# what the linker map names, has no symbol left open, brings its C++ library along, because the program may have an older
# one or none, and stays mapped for ever: its callers may still call after dlclose or after destructors ran.
function(ucx_gaudi_loadable target map)
    cmake_path(ABSOLUTE_PATH map BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    target_link_options(${target} PRIVATE "-Wl,--version-script=${map}" -Wl,-z,nodelete)
    if(NOT UCX_GAUDI_SANITIZE) # clang's sanitizer runtime is only in the program, so libraries leave it open
        target_link_options(${target} PRIVATE -Wl,-z,defs)
        target_link_options(${target} PRIVATE $<$<LINK_LANGUAGE:CXX>:-static-libstdc++> $<$<LINK_LANGUAGE:CXX>:-static-libgcc>)
        if(UCX_GAUDI_HAS_EXCLUDE_LIBS) # its own C++ library must not stand in for the program's; that of zig is hidden
            target_link_options(${target} PRIVATE -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a)
        endif()
    endif()
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
endfunction()

# ucx_gaudi_module_names(TARGET): UCX loads the file whose suffix equals that of its own libucs, so each module is three
# files; not links, because wheels and some file systems have none.
function(ucx_gaudi_module_names target)
    foreach(suffix IN ITEMS 0 0.0.0)
        add_custom_command(TARGET ${target} POST_BUILD
            COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:${target}> $<TARGET_FILE:${target}>.${suffix}
            VERBATIM)
    endforeach()
endfunction()

# All that is installed, for packages: examples and tests are not compiled for them.
add_custom_target(product)

# ucx_gaudi_install(COMPONENT c TARGETS ... [SUBDIRECTORY d]): programs go to the directory of programs, libraries to a
# directory of their own in that of libraries, where no linker and no UCX finds them by accident.
function(ucx_gaudi_install)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "COMPONENT;SUBDIRECTORY" "TARGETS")
    install(TARGETS ${arg_TARGETS}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${arg_COMPONENT}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${arg_SUBDIRECTORY} COMPONENT ${arg_COMPONENT})
    add_dependencies(product ${arg_TARGETS})
endfunction()
