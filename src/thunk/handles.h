// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_GAUDI_THUNK_HANDLES_H
#define UCX_GAUDI_THUNK_HANDLES_H

#include <string>
#include <utility>

#include "error.h"

namespace gaudi::thunk {

// Owns a descriptor that close(2) ends, such as a dma-buf. Descriptors of cards belong to DeviceFd.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) noexcept : fd_(fd) {}
    Fd(Fd &&other) noexcept : fd_(other.detach()) {}
    Fd &operator=(Fd &&other) noexcept;
    ~Fd();

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

    // Gives the descriptor up without closing it.
    int detach() noexcept { return std::exchange(fd_, -1); }

    // Linux frees the number even when close fails, so the owner is empty afterwards either way.
    Result<void> close();

    // A second descriptor of the same open file, close-on-exec.
    Result<Fd> duplicate() const;

private:
    int fd_ = -1;
};

// Owns one reference to a loaded library.
class DlHandle {
public:
    static Result<DlHandle> open(const std::string &path);

    DlHandle() = default;
    DlHandle(DlHandle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    DlHandle &operator=(DlHandle &&other) noexcept;
    ~DlHandle();

    explicit operator bool() const noexcept { return handle_ != nullptr; }

    // nullptr when the library, and what it depends on, lack the symbol.
    void *symbol(const char *name) const noexcept;

    // The file behind the handle, as the loader found it.
    std::string path() const;

    // The loader gives equal files equal handles.
    const void *get() const noexcept { return handle_; }

    // Keeps the library loaded for the rest of the process.
    void keep() noexcept { handle_ = nullptr; }

    // The owner is empty afterwards either way: after a failed dlclose the handle's state is unknown.
    Result<void> close();

private:
    explicit DlHandle(void *handle) noexcept : handle_(handle) {}

    void *handle_ = nullptr;
};

} // namespace gaudi::thunk

#endif
