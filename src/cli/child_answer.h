// SPDX-License-Identifier: BSD-3-Clause
// Text that a child process finds out: for libraries that could not be unloaded from this one, or could crash it.
#pragma once

#include "thunk/fd.h"

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

namespace gaudi::cli {

class ChildAnswer {
public:
    /// Runs `write` in a child with the descriptor to write the answer to. Its standard streams are /dev/null, so that no
    /// library mixes messages with the output of this process. Signals end it, as the end of this process does.
    explicit ChildAnswer(const std::function<void(int out)> &write);
    ChildAnswer(ChildAnswer &&other) noexcept
        : m_child(std::exchange(other.m_child, -1)), m_in(std::move(other.m_in)) {}
    ~ChildAnswer() { reap(); }

    bool is_started() const { return m_child > 0; }
    /// Waits for the child; nothing follows in the text where it crashed. To be called once.
    std::string read();

private:
    void reap();

    pid_t m_child = -1;
    thunk::Fd m_in;
};

} // namespace gaudi::cli
