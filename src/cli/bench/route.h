// SPDX-License-Identifier: BSD-3-Clause
// The paths that a test moves data over, set up and ready. A test of both directions has two paths, one of all cards one
// or two for each.
#pragma once

#include "cli/sentence.h"

#include <cstdint>

namespace gaudi::cli::bench {

class Route {
public:
    virtual ~Route() = default;
    Route(const Route &) = delete;
    Route &operator=(const Route &) = delete;

    virtual unsigned paths() const = 0;
    /// Writes a pattern to the source of each path, `length` bytes from its start.
    virtual OrSentence<void> fill(std::uint64_t length, std::uint32_t seed) = 0;
    /// Moves `count` pieces of `size` bytes on each path, one behind the other in memory and all at once in time; returns
    /// when they have ended.
    virtual OrSentence<void> transfer(std::uint64_t size, std::uint64_t count) = 0;
    /// Whether each destination has the pattern.
    virtual OrSentence<bool> check(std::uint64_t length, std::uint32_t seed) = 0;

protected:
    Route() = default;
};

} // namespace gaudi::cli::bench
