// SPDX-License-Identifier: BSD-3-Clause
// Which package a file belongs to: an upgrade of the package would overwrite changes.
#pragma once

#include <filesystem>
#include <string>

namespace gaudi::cli {

/// The name of the Debian, RPM or Python package that has this file, or a file that is to be there; empty if none has.
std::string find_owner(const std::filesystem::path &file);

} // namespace gaudi::cli
