// SPDX-License-Identifier: BSD-3-Clause
// UCX's own programs, started with the built modules.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace gaudi::ucx {

struct Finished {
    int status;
    std::string output;
};

/// Runs a command in a shell, with `preload` in its LD_PRELOAD. UCX_GAUDI_PRELOAD is the sanitizer's runtime, which a plain
/// program needs before it can load a sanitized module; leaks of the program itself are not checked.
inline Finished run(const std::string &environment, const std::string &command, const std::string &preload = "") {
    const std::string runtime = UCX_GAUDI_PRELOAD;
    std::string line = "env -u UCX_MODULES ";
    if (!runtime.empty())
        line += "ASAN_OPTIONS=detect_leaks=0 ";
    if (!runtime.empty() || !preload.empty())
        line += "LD_PRELOAD='" + runtime + preload + "' ";
    line += environment + " " + command + " 2>&1";
    std::FILE *pipe = ::popen(line.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string text;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
        text.append(buffer, got);
    return {::pclose(pipe), text};
}

/// The lines with one of `marks` in them.
inline std::vector<std::string> lines_with(const std::vector<std::string> &marks, const std::string &output) {
    std::vector<std::string> found;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);)
        for (const std::string &mark : marks)
            if (line.find(mark) != std::string::npos) {
                found.push_back(line);
                break;
            }
    return found;
}

inline std::vector<std::string> warnings(const std::string &output) {
    return lines_with({"UCX  WARN ", "UCX  ERROR "}, output);
}

inline const std::string kRapids = UCX_GAUDI_ENGINES "/rapids-1.22/libucx";

} // namespace gaudi::ucx
