# deb and rpm, a package for each component of the installation. `./ucx-gaudi package` makes them from the portable build.
set(CPACK_PACKAGE_NAME ucx-gaudi)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGE_VENDOR ucx-gaudi)
set(CPACK_PACKAGE_CONTACT "ucx-gaudi <noreply@ucx-gaudi.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP) # a component without a group is one

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "BSD-3-Clause AND MIT AND Apache-2.0 WITH LLVM-exception AND CC0-1.0")
set(CPACK_RPM_COMPRESSION_TYPE xz) # rpm of RHEL 8 and 9 reads it
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib64/cmake /usr/lib64/pkgconfig) # directories of the system
# The libraries are private: no other package may come to need them by name, and the core lies beside the modules. The UCX
# of the demo is the one that `ucx_gaudi demo` finds, of whatever package or wheel.
set(CPACK_RPM_SPEC_MORE_DEFINE "%global __provides_exclude_from ^.*/(ucx-gaudi|ucx-gaudi-record|softgaudi|softhca)/.*\\.so.*$
%global __requires_exclude ^(libgaudi-core\\.so\\.1|libuc[ps]\\.so\\.0|/usr/bin/pkg-config)
%global _build_id_links none")

# ucx_gaudi_package(COMPONENT PACKAGE SUMMARY TEXT [REQUIRES package ...] [DEBIAN_REQUIRES package ...]
# [RECOMMENDS package ...] [BEFORE_REMOVAL name]): REQUIRES are packages of this project, in the same version. The scripts
# packaging/deb/<name>/prerm and packaging/rpm/<name>.sh run before a removal.
function(ucx_gaudi_package component package summary text)
    cmake_parse_arguments(PARSE_ARGV 4 arg "" "BEFORE_REMOVAL" "REQUIRES;RECOMMENDS;DEBIAN_REQUIRES")
    install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright
        COMPONENT ${component})
    install(FILES ${PROJECT_SOURCE_DIR}/packaging/third-party.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
        COMPONENT ${component})

    set(deb_requires "libc6 (>= 2.28)" ${arg_DEBIAN_REQUIRES})
    set(rpm_requires "")
    foreach(other IN LISTS arg_REQUIRES)
        list(APPEND deb_requires "${other} (= ${PROJECT_VERSION})")
        list(APPEND rpm_requires "${other} = ${PROJECT_VERSION}")
    endforeach()
    list(JOIN deb_requires ", " deb_requires)
    list(JOIN rpm_requires ", " rpm_requires)
    list(JOIN arg_RECOMMENDS ", " recommends)
    set(deb_script "")
    set(rpm_script "")
    if(arg_BEFORE_REMOVAL)
        set(deb_script ${PROJECT_SOURCE_DIR}/packaging/deb/${arg_BEFORE_REMOVAL}/prerm)
        set(rpm_script ${PROJECT_SOURCE_DIR}/packaging/rpm/${arg_BEFORE_REMOVAL}.sh)
    endif()

    string(TOUPPER ${component} name)
    foreach(setting IN ITEMS
            "COMPONENT_${name}_DESCRIPTION;${text}"
            "DEBIAN_${name}_PACKAGE_NAME;${package}" "RPM_${name}_PACKAGE_NAME;${package}"
            "DEBIAN_${name}_DESCRIPTION;${summary}\n${text}"
            "RPM_${name}_PACKAGE_SUMMARY;${summary}"
            "DEBIAN_${name}_PACKAGE_SECTION;libs"
            "DEBIAN_${name}_PACKAGE_CONTROL_EXTRA;${deb_script}" "RPM_${name}_PRE_UNINSTALL_SCRIPT_FILE;${rpm_script}"
            "DEBIAN_${name}_PACKAGE_DEPENDS;${deb_requires}" "RPM_${name}_PACKAGE_REQUIRES;${rpm_requires}"
            "DEBIAN_${name}_PACKAGE_RECOMMENDS;${recommends}" "RPM_${name}_PACKAGE_RECOMMENDS;${recommends}")
        list(GET setting 0 variable)
        list(GET setting 1 value)
        set(CPACK_${variable} "${value}" PARENT_SCOPE)
    endforeach()
    set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()

ucx_gaudi_package(plugin ucx-gaudi-plugin "Intel Gaudi support for stock UCX"
    "Modules that UCX 1.22 and later load: device memory of Gaudi cards is allocated, recognised, copied and handed to RDMA NICs. They lie in a directory of their own, which UCX_PLUGIN_PATH names to UCX.")
ucx_gaudi_package(tools ucx-gaudi-tools "Command line of ucx-gaudi"
    "The program ucx_gaudi: what UCX sees of Gaudi cards, and UCX programs on software cards."
    REQUIRES ucx-gaudi-plugin RECOMMENDS softgaudi softhca BEFORE_REMOVAL tools)
ucx_gaudi_package(softgaudi softgaudi "Intel Gaudi server in software"
    "A libhl-thunk.so that models a server of up to eight Gaudi cards, for tests of programs without a card. It is used only where it is named.")
ucx_gaudi_package(softhca softhca "RDMA NIC in software that imports dma-bufs"
    "A library to preload that takes the place of libibverbs, for tests of RDMA programs without a NIC. It is used only where it is named.")

# The Python package, for every Python 3 of Debian. Links lead from it to the modules and programs of the system.
set(UCX_GAUDI_PYTHON_DIR "" CACHE STRING "Where the Python package is installed, below the prefix; empty: nowhere")
if(UCX_GAUDI_PYTHON_DIR)
    set(links "")
    foreach(link IN ITEMS lib bin)
        string(TOUPPER ${link} name)
        file(RELATIVE_PATH target /${UCX_GAUDI_PYTHON_DIR}/ucx_gaudi /${CMAKE_INSTALL_${name}DIR})
        list(APPEND links ${PROJECT_BINARY_DIR}/python/${link})
        file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/python)
        file(CREATE_LINK ${target} ${PROJECT_BINARY_DIR}/python/${link} SYMBOLIC)
    endforeach()
    configure_file(packaging/METADATA.in python/METADATA @ONLY)
    install(DIRECTORY python/ucx_gaudi DESTINATION ${UCX_GAUDI_PYTHON_DIR} COMPONENT python FILES_MATCHING PATTERN *.py)
    install(FILES ${links} DESTINATION ${UCX_GAUDI_PYTHON_DIR}/ucx_gaudi COMPONENT python)
    install(FILES ${PROJECT_BINARY_DIR}/python/METADATA COMPONENT python
        DESTINATION ${UCX_GAUDI_PYTHON_DIR}/ucx_gaudi-${PROJECT_VERSION}.dist-info)
    ucx_gaudi_package(python python3-ucx-gaudi "Intel Gaudi support for stock UCX, from Python"
        "The Python package ucx_gaudi: memory of cards for programs that hand addresses to NIXL or MPI."
        REQUIRES ucx-gaudi-plugin RECOMMENDS ucx-gaudi-tools DEBIAN_REQUIRES python3 BEFORE_REMOVAL python)
endif()

include(CPack)
