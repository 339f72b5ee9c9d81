// SPDX-License-Identifier: BSD-3-Clause
// The settings of softgaudi and softhca, judged by these libraries themselves before a program starts.
#pragma once

#include <filesystem>
#include <string>

namespace gaudi::cli {

/// Lets `function` of the library (softgaudi_check_settings, softhca_check_settings) read its settings from the
/// environment. Returns its sentence about a wrong one, which begins with the variable; empty if all are right.
std::string find_wrong_setting(const std::filesystem::path &library, const char *function);

} // namespace gaudi::cli
