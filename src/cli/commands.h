// SPDX-License-Identifier: BSD-3-Clause
// The commands of ucx_gaudi with their options, as CLI11 parses them.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace gaudi::cli {

struct Command {
    CLI::App *app;
    std::function<int()> run;    // returns the exit code
    std::string program_example; // set for a command that takes the words of a program after --
};

/// `program` receives the words after --, before a command runs.
std::vector<Command> add_commands(CLI::App &app, const std::vector<std::string> &program);

} // namespace gaudi::cli
