// SPDX-License-Identifier: BSD-3-Clause
// Where Python finds packages: many programs get their UCX from a wheel there.
#pragma once

#include <filesystem>
#include <vector>

namespace gaudi::cli {

/// The package directories of the python3 of the active virtual environment, else of the one in PATH.
std::vector<std::filesystem::path> list_python_packages();

} // namespace gaudi::cli
