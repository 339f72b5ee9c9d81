# The headers that most of src/ and soft/ include, compiled once: g++ takes a third less time for those folders. Clang does
# without, and so holds each source to including what it uses.
if(NOT UCX_GAUDI_PRECOMPILE)
    return()
endif()

add_library(product_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/precompiled/headers.cpp)
target_link_libraries(product_headers PRIVATE ucx_gaudi_options gaudi_os tl::expected)
target_precompile_headers(product_headers PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled/headers.h)

# ucx_gaudi_precompile(<directory>): for the libraries of a directory and those below it. Programs are compiled with other
# flags, which the compiler does not accept with the same precompiled headers.
function(ucx_gaudi_precompile directory)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
        get_target_property(type ${target} TYPE)
        # The headers themselves need gaudi_os.
        if(NOT target STREQUAL "gaudi_os" AND type MATCHES "^(STATIC|SHARED|OBJECT)_LIBRARY$")
            target_precompile_headers(${target} REUSE_FROM product_headers)
        endif()
    endforeach()
    get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    foreach(folder IN LISTS folders)
        ucx_gaudi_precompile(${folder})
    endforeach()
endfunction()

ucx_gaudi_precompile(${PROJECT_SOURCE_DIR}/src)
ucx_gaudi_precompile(${PROJECT_SOURCE_DIR}/soft)
