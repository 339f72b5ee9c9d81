// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "error.h"

#include <utility>

namespace gaudi::thunk {

/// Owns a descriptor that close(2) ends, such as a dma-buf. Descriptors of cards belong to DeviceFd.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) noexcept : m_fd(fd) {}
    Fd(Fd &&other) noexcept : m_fd(other.detach()) {}
    Fd &operator=(Fd &&other) noexcept;
    ~Fd();

    int get() const noexcept { return m_fd; }
    explicit operator bool() const noexcept { return m_fd >= 0; }

    /// Gives the descriptor up without closing it.
    int detach() noexcept { return std::exchange(m_fd, -1); }

    /// Linux frees the number even when close fails, so the owner is empty afterwards either way.
    Result<void> close();

    /// A second descriptor of the same open file, close-on-exec.
    Result<Fd> duplicate() const;

private:
    int m_fd = -1;
};

} // namespace gaudi::thunk
