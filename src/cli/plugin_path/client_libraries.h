// SPDX-License-Identifier: BSD-3-Clause
// The libraries by which a client of UCX loads it: those of NIXL, of Open MPI, or of a UCX in a directory.
#pragma once

#include "cli/sentence.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::cli {

/// A library that is a libucp or brings one along.
struct ClientLibrary {
    std::filesystem::path file;
    std::string owner; // for messages, as in "the wheel nixl_cu12"
};

/// `client` is nixl (the wheels of the python3 in PATH), openmpi (that of the mpirun in PATH), or a directory.
OrSentence<std::vector<ClientLibrary>> find_client_libraries(const std::string &client);

} // namespace gaudi::cli
