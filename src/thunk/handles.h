// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <utility>

#include "error.h"

namespace gaudi::thunk {

// Owns a descriptor that close(2) ends, such as a dma-buf. Descriptors of cards belong to DeviceFd.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) noexcept : m_fd(fd) {}
    Fd(Fd &&other) noexcept : m_fd(other.detach()) {}
    Fd &operator=(Fd &&other) noexcept;
    ~Fd();

    int get() const noexcept { return m_fd; }
    explicit operator bool() const noexcept { return m_fd >= 0; }

    // Gives the descriptor up without closing it.
    int detach() noexcept { return std::exchange(m_fd, -1); }

    // Linux frees the number even when close fails, so the owner is empty afterwards either way.
    Result<void> close();

    // A second descriptor of the same open file, close-on-exec.
    Result<Fd> duplicate() const;

private:
    int m_fd = -1;
};

// Owns one reference to a loaded library.
class DlHandle {
public:
    static Result<DlHandle> open(const std::string &path);

    DlHandle() = default;
    DlHandle(DlHandle &&other) noexcept : m_handle(std::exchange(other.m_handle, nullptr)) {}
    DlHandle &operator=(DlHandle &&other) noexcept;
    ~DlHandle();

    explicit operator bool() const noexcept { return m_handle != nullptr; }

    // nullptr when the library, and what it depends on, lack the symbol.
    void *symbol(const char *name) const noexcept;

    // The file behind the handle, as the loader found it.
    std::string path() const;

    // The loader gives equal files equal handles.
    const void *get() const noexcept { return m_handle; }

    // Keeps the library loaded for the rest of the process.
    void keep() noexcept { m_handle = nullptr; }

    // The owner is empty afterwards either way: after a failed dlclose the handle's state is unknown.
    Result<void> close();

private:
    explicit DlHandle(void *handle) noexcept : m_handle(handle) {}

    void *m_handle = nullptr;
};

} // namespace gaudi::thunk
