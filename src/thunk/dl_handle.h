// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "error.h"

#include <string>
#include <utility>

namespace gaudi::thunk {

/// Owns one reference to a loaded library.
class DlHandle {
public:
    static Result<DlHandle> open(const std::string &path);

    DlHandle() = default;
    DlHandle(DlHandle &&other) noexcept : m_handle(std::exchange(other.m_handle, nullptr)) {}
    DlHandle &operator=(DlHandle &&other) noexcept;
    ~DlHandle();

    explicit operator bool() const noexcept { return m_handle != nullptr; }

    /// nullptr when neither the library nor its dependencies have the symbol.
    void *symbol(const char *name) const noexcept;

    /// The file behind the handle, as the loader found it.
    std::string path() const;

    /// The loader's handle, which is the same one for the same file.
    const void *get() const noexcept { return m_handle; }

    /// Keeps the library loaded for the rest of the process.
    void keep() noexcept { m_handle = nullptr; }

    /// The owner is empty afterwards either way: after a failed dlclose the handle's state is unknown.
    Result<void> close();

private:
    explicit DlHandle(void *handle) noexcept : m_handle(handle) {}

    void *m_handle = nullptr;
};

} // namespace gaudi::thunk
