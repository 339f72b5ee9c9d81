// SPDX-License-Identifier: BSD-3-Clause
// The transfer that the user of `ucx_gaudi explain` names.
#pragma once

#include "cli/sentence.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gaudi::cli::explain {

enum class Operation { tag, put, get };

/// Where the bytes come from or go to.
struct End {
    bool remote = false;          // in another process than the other end
    std::optional<unsigned> card; // by module id; nothing: host memory
};

struct Transfer {
    End from, to;
    std::uint64_t bytes = 0;
    Operation operation = Operation::tag;

    bool is_between_processes() const { return from.remote || to.remote; }
};

/// "gaudi:0", "host", or either with "remote:" before it.
OrSentence<End> parse_end(const std::string &text);
/// "4096", "4K", "1M", "2G": powers of 1024.
OrSentence<std::uint64_t> parse_bytes(const std::string &text);
OrSentence<Operation> parse_operation(const std::string &text);
/// All of them, and whether they go together.
OrSentence<Transfer> parse_transfer(const std::string &from, const std::string &to, const std::string &bytes,
                                    const std::string &operation);

/// As parse_end() takes it.
std::string name_of(const End &end);
const char *name_of(Operation operation);

} // namespace gaudi::cli::explain
