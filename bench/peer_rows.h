// SPDX-License-Identifier: BSD-3-Clause
// The rows of bench_peer. Each is measured in a child process of its own, in which UCX starts anew.
#pragma once

#include "samples.h"

#include <ucs/memory/memory_type.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct PeerOptions {
    ucs_memory_type_t from = UCS_MEMORY_TYPE_HOST, to = UCS_MEMORY_TYPE_GAUDI;
    unsigned rounds = 11;
    unsigned count = 16'384; // operations in a sample
    std::vector<unsigned> ranges{4096, 16'384};
    std::vector<unsigned> threads{1, 2, 16};
    unsigned thread_ms = 100;            // duration of a sample with threads
    std::size_t transfer = 64 << 20;     // bytes between two processes
    std::vector<std::string> transports; // each a value of UCX_TLS
    std::size_t check = SIZE_MAX;        // bytes of each row that are compared: a model that moves nothing has few
};

/// Parts of the table by name: put, allocate, register, ranges, init, threads, transfer.
extern const std::vector<std::string> kPeerParts;

/// Measures one part in a child process; throws if the child fails.
Json measure_part(const std::string &part, const PeerOptions &options);

} // namespace bench
