// SPDX-License-Identifier: BSD-3-Clause
// Two processes that exchange memory through UCP, in every way UCP offers, and check every byte.
#pragma once

#include "ucp_side.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>

namespace e2e {

inline constexpr std::array<std::size_t, 7> kSizes = {0, 1, 7, 4095, 65536, (1 << 20) + 3, 16 << 20};

enum class Operation { tag, am, put, get, stream };
inline constexpr std::array kOperations = {Operation::tag, Operation::am, Operation::put, Operation::get,
                                           Operation::stream};

const char *name(Operation operation);

/// Runs both sides, each in a process in which UCX starts afresh; one pair per test. A warning or an error that UCX
/// prints on the way fails the test.
void run_pair(const std::function<void(Side &, bool first)> &conversation, const Options &options = {});

/// The first side sends to the second, or puts into it, or gets from it; the receiver's bytes are checked. `watch` is
/// called by the first side right before and right after the transfer, when nothing else moves.
void exchange(Side &side, bool first, Operation operation, Memory &memory, std::size_t size, bool with_handle,
              const std::function<void()> &watch = {});

/// All operations between Gaudi memory of both sides, at a few sizes.
void converse(const Options &options = {});

} // namespace e2e
