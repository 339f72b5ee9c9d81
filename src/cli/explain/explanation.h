// SPDX-License-Identifier: BSD-3-Clause
// The answer of `ucx_gaudi explain`, made of what the processes of the transfer have seen.
#pragma once

#include "cause.h"
#include "proto_info.h"
#include "sides.h"
#include "transfer.h"

#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli::explain {

enum class Way {
    zero_copy,
    staged, // bytes are copied in host memory on the way
    failed, // there was no transfer
};

struct UcxChoice {
    std::string libraries; // its directory
    std::string source;    // where it was found
};

struct Explanation {
    Transfer transfer;
    bool software = false;
    UcxChoice ucx;
    std::string ucx_version;
    Way way = Way::failed;
    std::string problem;  // why there was no transfer
    std::string request;  // as ucp_request_query has it
    RequestInfo sender;   // the same in parts: of the process that starts the transfer
    std::string receiver; // the protocol that the receiver of a rendezvous has chosen; empty: the sender decides alone
    std::optional<CopiedBytes> copied;       // in both processes
    std::optional<std::uint64_t> host_bytes; // bytes of the message that went through host memory; nothing: not counted
    std::optional<bool> intact;
    std::string why_unchecked;
    std::vector<ProtocolTable> tables; // of this operation: the sender's, and the receiver's
    std::string unknown_tables;        // as UCX has printed them
    std::optional<Cause> cause;        // of copies, and of UCX's refusal
};

/// All but the cause. `result` has one side or two: that of FROM first.
Explanation explain_result(const Transfer &transfer, const SidesResult &result);
/// What the processes have said that bears on the cause.
Evidence evidence_of(const Explanation &explanation, const SidesResult &result);

/// "zero copy: 0 of 1,048,576 bytes go through host memory".
std::string verdict_of(const Explanation &explanation);
/// "gaudi:0 -> host memory -> tcp/lo -> host memory -> remote:gaudi:1"; empty if there was no transfer.
std::string path_of(const Explanation &explanation);

std::string format_text(const Explanation &explanation, bool colour);
std::string format_json(const Explanation &explanation, const std::string &version);

} // namespace gaudi::cli::explain
