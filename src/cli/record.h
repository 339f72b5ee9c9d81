// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi record: any program with its calls of libhl-thunk written to a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::cli {

struct RecordOptions {
    std::string output;
    std::uint64_t size_mib = 256; // of the file, at most
    std::string json;             // the file to write the summary to; empty: none
    std::vector<std::string> command;
};

/// Runs the command; returns its exit code.
int run_record(const RecordOptions &options);

} // namespace gaudi::cli
