// SPDX-License-Identifier: BSD-3-Clause
// The tables that UCX prints with UCX_PROTO_INFO=y, and what ucp_request_query says of a request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi::cli::explain {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

/// A row: what UCX does with messages of these sizes.
struct ProtocolRange {
    std::uint64_t first = 0, last = kNoLimit; // bytes
    std::string protocol;                     // UCX's description
    bool estimated = false;                   // UCX does not know the other side's choice yet: "(?)"
    std::string lanes;
};

struct ProtocolTable {
    std::string title; // as in "tagged message by ucp_tag_send* from gaudi memory"
    std::vector<ProtocolRange> ranges;

    /// Null if no range has this size.
    const ProtocolRange *find(std::uint64_t bytes) const;
};

struct ProtocolInfo {
    std::vector<ProtocolTable> tables; // in the order of printing
    std::string unknown;               // lines of boxes that are not built as known ones
};

ProtocolInfo parse_protocol_info(std::string_view log);

/// A line of UCX's log without its time, host and process.
std::string_view strip_log_prefix(std::string_view line);

/// The last of the tables whose title has all of these words; null if none has.
const ProtocolTable *find_table(const std::vector<ProtocolTable> &tables, const std::vector<std::string_view> &words);

struct RequestInfo {
    std::string protocol, lanes; // the lanes are empty if they cannot be told from the protocol
};
/// `table` may be null.
RequestInfo parse_request(std::string_view request, const ProtocolTable *table, std::uint64_t bytes);

/// Whether these words of UCX's say that neither side copies.
bool is_zero_copy(std::string_view protocol);

struct Lane {
    std::string name;       // transport/device
    unsigned percent = 100; // of the bytes
};
std::vector<Lane> parse_lanes(std::string_view lanes);

} // namespace gaudi::cli::explain
