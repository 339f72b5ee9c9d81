// SPDX-License-Identifier: BSD-3-Clause
// A process that `ucx_gaudi explain` starts to make the transfer: one for each end, or one for both. It loads UCX, which
// cannot be unloaded, and opens cards, which are closed when it ends.
#pragma once

#include "copied_bytes.h"
#include "transfer.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace gaudi::cli::explain {

/// What the process shall do.
struct SideTask {
    std::string libucp;
    bool has_from = false, has_to = false;
    std::string from_card, to_card; // bus ids; empty: host memory
    std::uint64_t bytes = 0;
    Operation operation = Operation::tag;
    int peer = -1;   // socket to the process of the other end; -1: this one has both
    int report = -1; // file to write the report to
};

/// What it has seen.
struct SideReport {
    std::string problem; // why there was no transfer; empty: there was one
    std::string ucx_version;
    std::optional<bool> knows_gaudi; // nothing where UCX did not start
    std::string
        request; // what ucp_request_query says of the request that moves the bytes; empty: the other side has it
    std::optional<CopiedBytes> copied;
    std::optional<bool> intact; // whether the bytes that arrived are those that were sent
    std::string why_unchecked;
};

std::string write_task(const SideTask &task);
/// Nothing if the text is no report: the process has crashed.
std::optional<SideReport> read_report(const std::string &text);

/// The first word of the command line of such a process; the second is the task.
inline constexpr const char *kSideWord = "explain-side";
[[noreturn]] void run_side(const std::string &task);

} // namespace gaudi::cli::explain
