// SPDX-License-Identifier: BSD-3-Clause
// A process that removes the directory of a run which was killed by SIGKILL, once the last of its programs has ended.
#pragma once

#include "thunk/fd.h"

#include <sys/types.h>

#include <filesystem>
#include <utility>

namespace gaudi::cli {

class Keeper {
public:
    /// Where no process can be started there is no keeper: the next run removes the directory then.
    explicit Keeper(const std::filesystem::path &directory);
    Keeper(Keeper &&other) noexcept : m_child(std::exchange(other.m_child, -1)), m_alive(std::move(other.m_alive)) {}
    /// Ends the process: the directory is no longer its concern.
    ~Keeper();

private:
    pid_t m_child = -1;
    thunk::Fd m_alive; // the kernel closes it with this process, and the keeper sees that
};

} // namespace gaudi::cli
