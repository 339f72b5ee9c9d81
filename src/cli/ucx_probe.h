// SPDX-License-Identifier: BSD-3-Clause
// Which UCX a libucp belongs to.
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

/// Loads a libucp (a path, or a name for the loader) in a child process and reads its version: in this process UCX
/// could not be unloaded. UCX starts slowly, so several probes are best started together.
class UcxProbe {
public:
    explicit UcxProbe(const std::string &libucp);
    UcxProbe(UcxProbe &&other) noexcept : m_child(std::exchange(other.m_child, -1)), m_in(std::move(other.m_in)) {}
    ~UcxProbe();

    /// Waits for the child. Nothing if the library does not load. To be called once.
    std::optional<ProbedUcx> read_answer();

private:
    void reap();

    pid_t m_child = -1;
    thunk::Fd m_in;
};

} // namespace gaudi::cli
