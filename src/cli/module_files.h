// SPDX-License-Identifier: BSD-3-Clause
// Which files UCX takes for modules.
#pragma once

#include <filesystem>
#include <string>

namespace gaudi::cli {

/// How the names of modules must end for the UCX that has this libucs: as its own name does, ".so.0" or ".so.0.0.0".
std::string module_suffix(const std::filesystem::path &libucs);

} // namespace gaudi::cli
