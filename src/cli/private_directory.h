// SPDX-License-Identifier: BSD-3-Clause
// A fresh directory in memory for one run of a program, gone afterwards.
#pragma once

#include "sentence.h"
#include "thunk/fd.h"

#include <filesystem>
#include <utility>

namespace gaudi::cli {

class PrivateDirectory {
public:
    /// Also removes what runs left behind that were killed before they could.
    static OrSentence<PrivateDirectory> make();

    PrivateDirectory(PrivateDirectory &&other) noexcept
        : m_path(std::exchange(other.m_path, {})), m_lock(std::move(other.m_lock)) {}
    ~PrivateDirectory();

    const std::filesystem::path &path() const { return m_path; }

private:
    PrivateDirectory(std::filesystem::path path, thunk::Fd lock) : m_path(std::move(path)), m_lock(std::move(lock)) {}

    std::filesystem::path m_path; // empty after a move
    // The directory itself, locked. Programs inherit it: the directory is in use as long as one of them lives, and
    // whoever can lock it knows that all are gone.
    thunk::Fd m_lock;
};

/// Whether files in `directory` are memory: the cards' memory would fill a disk.
bool on_memory(const std::filesystem::path &directory);

} // namespace gaudi::cli
