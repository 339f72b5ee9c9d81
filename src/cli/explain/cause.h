// SPDX-License-Identifier: BSD-3-Clause
// Why a transfer is not zero copy: the first of the doctor's checks, and of what UCX itself has said, that explains it.
#pragma once

#include "cli/doctor/facts.h"
#include "transfer.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gaudi::cli::explain {

struct Cause {
    std::string id; // of the doctor's check; empty if none knows it
    std::string sentence;
    std::string fix;
};

/// What the transfer has shown.
struct Evidence {
    bool knows_gaudi = true;                     // UCX has a memory domain for card memory
    bool has_ib_module = true;                   // the UCX has libuct_ib
    bool bounced = false;                        // ucx-gaudi has used its own buffers
    std::string refused_export;                  // why the module gives RDMA devices no dma-bufs; empty: it does
    std::string refused_registration;            // UCX's words about an RDMA device that did not register one
    std::optional<std::uint64_t> zero_copy_from; // UCX's tables have zero copy from this size on, which is a larger one
    std::string protocol;
};

/// To be called for a transfer that was staged or failed. The facts are those of the UCX that was used.
Cause find_cause(const Transfer &transfer, const Evidence &evidence, const doctor::Facts &facts);

} // namespace gaudi::cli::explain
