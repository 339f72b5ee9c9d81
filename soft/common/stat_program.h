// SPDX-License-Identifier: BSD-3-Clause
// What softgaudi_stat and softhca_stat share: their options, and looking at the files of a model without creating or
// changing any.
#pragma once

#include "common/parsing.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace soft {

struct StatProgram {
    const char *name;
    const char *about; // one sentence of --help
    bool json = false; // the option
};

/// Reads the options; an exit code where there is nothing else to do: after --help, --version, or a wrong option.
std::optional<int> read_options(StatProgram &program, int argc, char **argv);

/// Prints one sentence on stderr; returns the exit code.
int report_failure(const StatProgram &program, std::string_view sentence);

/// Prints the report; returns the exit code.
int print_report(const StatProgram &program, const std::string &text);

/// The directory that `variable` names, or the user's own, if it is there. `what` is the thing that was not used yet if not.
Expected<std::string> find_directory(const char *variable, std::string_view usual, std::string_view what);

/// Maps a file that must have this size and begin with this number, for reading.
Expected<const void *> map_for_reading(const std::string &path, std::size_t size, std::uint32_t magic);

} // namespace soft
