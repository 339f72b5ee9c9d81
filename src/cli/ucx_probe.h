// SPDX-License-Identifier: BSD-3-Clause
// Asking a UCX what it is.
#pragma once

#include "thunk/fd.h"

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

namespace gaudi::cli {

struct ProbedUcx {
    std::string libucs;  // the file that was loaded
    std::string version; // as in "1.22.0"
};

/// Loads a libucp (a path, or a name for the loader to find) and asks it, in a process of its own: a UCX in this one
/// would stay. UCX takes its time to start, so several are best asked at once.
class UcxProbe {
public:
    explicit UcxProbe(const std::string &libucp);
    UcxProbe(UcxProbe &&other) noexcept : m_child(std::exchange(other.m_child, -1)), m_in(std::move(other.m_in)) {}
    ~UcxProbe();

    /// Nothing, if it does not load. Call it once.
    std::optional<ProbedUcx> answer();

private:
    void reap();

    pid_t m_child = -1;
    thunk::Fd m_in;
};

} // namespace gaudi::cli
