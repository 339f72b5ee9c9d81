// SPDX-License-Identifier: BSD-3-Clause
// Two processes that exchange memory through UCP, in every way UCP offers, and check every byte.
#pragma once

#include "ucp_side.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace e2e {

inline constexpr std::array<std::size_t, 7> kSizes = {0, 1, 7, 4095, 65536, (1 << 20) + 3, 16 << 20};

enum class Operation { tag, am, put, get, stream };
inline constexpr std::array kOperations = {Operation::tag, Operation::am, Operation::put, Operation::get,
                                           Operation::stream};

const char *name(Operation operation);

/// Throws a Failure: unlike an EXPECT it also ends the second side, which runs in a child process.
void require(bool condition, const char *failure);

/// A UCP context, which the caller cleans up.
ucp_context_h init_ucp(std::uint64_t features = UCP_FEATURE_TAG);

/// Runs each side in a process of its own, in which UCX starts anew; one pair per test. A warning or an error that UCX
/// logs fails the test.
void run_pair(const std::function<void(Side &, bool first)> &conversation, const Options &options = {});

/// The first side sends to the second, puts into its memory or gets from it; the receiving side checks the bytes. The
/// first side calls `watch` right before and right after the transfer, while both sides are idle.
void exchange(Side &side, bool first, Operation operation, Memory &memory, std::size_t size, bool with_handle,
              const std::function<void()> &watch = {});

/// Runs all operations between Gaudi memory of both sides, at a few sizes.
void converse(const Options &options = {});

} // namespace e2e
