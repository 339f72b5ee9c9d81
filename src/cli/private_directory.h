// SPDX-License-Identifier: BSD-3-Clause
// A new directory in memory for one run of a program, removed afterwards.
#pragma once

#include "keeper.h"
#include "sentence.h"
#include "thunk/fd.h"

#include <filesystem>
#include <utility>

namespace gaudi::cli {

class PrivateDirectory {
public:
    /// Also removes the directories of runs that were killed together with their keepers.
    static OrSentence<PrivateDirectory> make();

    PrivateDirectory(PrivateDirectory &&other) noexcept
        : m_path(std::exchange(other.m_path, {})), m_lock(std::move(other.m_lock)),
          m_keeper(std::move(other.m_keeper)) {}
    ~PrivateDirectory();

    const std::filesystem::path &path() const { return m_path; }

private:
    PrivateDirectory(std::filesystem::path path, thunk::Fd lock)
        : m_path(std::move(path)), m_lock(std::move(lock)), m_keeper(m_path) {}

    std::filesystem::path m_path; // empty after a move
    // The directory itself, locked. Programs inherit the descriptor, so the lock is held as long as one of them lives:
    // a run that gets the lock knows that all have ended.
    thunk::Fd m_lock;
    Keeper m_keeper;
};

/// Whether the files in `directory` are in memory: the memory of the cards would fill a disk.
bool is_in_memory(const std::filesystem::path &directory);

} // namespace gaudi::cli
