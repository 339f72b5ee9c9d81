// SPDX-License-Identifier: BSD-3-Clause
#include "client_libraries.h"

#include "cli/path_list.h"
#include "cli/python_packages.h"
#include "cli/ucx.h"
#include "os/format.h"

#include <unistd.h>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

using Libraries = OrSentence<std::vector<ClientLibrary>>;

Libraries find_nixl() {
    std::vector<ClientLibrary> found;
    for (const fs::path &packages : list_python_packages())
        for (const Ucx &ucx : find_ucx_in(packages)) {
            const fs::path bundle = ucx.libraries.filename(); // as in nixl_cu12.libs
            if (bundle.string().starts_with("nixl"))
                found.push_back({ucx.libucp, os::format("the wheel {}", bundle.stem().string())});
        }
    if (found.empty())
        return Sentence("--for nixl: python3 finds no NIXL wheel with a UCX inside; activate the environment that has "
                        "one, or name the directory of its UCX");
    return found;
}

fs::path find_in_path(const char *program) {
    for (const fs::path &directory : read_path_list("PATH"))
        if (::access((directory / program).c_str(), X_OK) == 0)
            return directory / program;
    return {};
}

/// Open MPI loads UCX from its component pml/ucx, which is a file of its own or part of libmpi.
Libraries find_open_mpi() {
    const fs::path mpirun = find_in_path("mpirun");
    if (mpirun.empty())
        return Sentence("--for openmpi: there is no mpirun in PATH");
    std::error_code error;
    const fs::path program = fs::canonical(mpirun, error);
    for (const fs::path &prefix : {mpirun.parent_path().parent_path(), program.parent_path().parent_path()})
        for (const char *libraries : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu/openmpi/lib",
                                      "lib64/openmpi/lib", "lib/openmpi/lib"}) {
            const fs::path directory = prefix / libraries;
            if (!fs::exists(directory / "libmpi.so.40", error))
                continue;
            const std::string owner = os::format("the Open MPI of {}", mpirun.string());
            for (const char *component : {"openmpi/mca_pml_ucx.so", "openmpi3/mca_pml_ucx.so"})
                if (fs::exists(directory / component, error))
                    return std::vector<ClientLibrary>{{directory / component, owner}};
            return std::vector<ClientLibrary>{{directory / "libmpi.so.40", owner}};
        }
    return Sentence(
        os::format("--for openmpi: {} is not of an Open MPI: there is no libmpi.so.40 in the directories of "
                   "libraries beside it",
                   mpirun.string()));
}

Libraries find_in_directory(const std::string &directory) {
    std::vector<ClientLibrary> found;
    for (const Ucx &ucx : find_ucx_in(fs::absolute(directory).lexically_normal()))
        found.push_back({ucx.libucp.empty() ? ucx.libraries / "libucp.so.0" : ucx.libucp, ucx.libraries.string()});
    if (found.empty())
        return Sentence(os::format("--for {}: there is no libucs in it, in its lib, nor in a wheel in it", directory));
    return found;
}

} // namespace

Libraries find_client_libraries(const std::string &client) {
    if (client == "nixl")
        return find_nixl();
    return client == "openmpi" ? find_open_mpi() : find_in_directory(client);
}

} // namespace gaudi::cli
