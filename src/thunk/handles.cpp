// SPDX-License-Identifier: BSD-3-Clause
#include "handles.h"

#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <fmt/format.h>

#include "report.h"

namespace gaudi::thunk {

Fd &Fd::operator=(Fd &&other) noexcept {
    if (this != &other) {
        release_or_report([this] { return close(); });
        m_fd = other.detach();
    }
    return *this;
}

Fd::~Fd() {
    release_or_report([this] { return close(); });
}

Result<void> Fd::close() {
    const int fd = detach();
    if (fd >= 0 && ::close(fd) != 0)
        return tl::unexpected(from_minus_one(errno, "close", std::to_string(fd)));
    return {};
}

Result<Fd> Fd::duplicate() const {
    const int fd = ::fcntl(m_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return tl::unexpected(from_minus_one(errno, "fcntl", fmt::format("{}, F_DUPFD_CLOEXEC", m_fd)));
    return Fd(fd);
}

Result<DlHandle> DlHandle::open(const std::string &path) {
    if (path.empty()) // dlopen would take it for the program itself
        return tl::unexpected(make_error(EINVAL, "dlopen", {}, "the name of the library is empty"));

    void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char *why = ::dlerror();
        return tl::unexpected(make_error(ELIBACC, "dlopen", path, why != nullptr ? why : ""));
    }
    return DlHandle(handle);
}

DlHandle &DlHandle::operator=(DlHandle &&other) noexcept {
    if (this != &other) {
        release_or_report([this] { return close(); });
        m_handle = std::exchange(other.m_handle, nullptr);
    }
    return *this;
}

DlHandle::~DlHandle() {
    release_or_report([this] { return close(); });
}

void *DlHandle::symbol(const char *name) const noexcept {
    return m_handle != nullptr ? ::dlsym(m_handle, name) : nullptr; // dlsym takes nullptr for "anywhere"
}

std::string DlHandle::path() const {
    const link_map *map = nullptr;
    if (m_handle == nullptr || ::dlinfo(m_handle, RTLD_DI_LINKMAP, &map) != 0)
        return {};
    return map->l_name;
}

Result<void> DlHandle::close() {
    void *handle = std::exchange(m_handle, nullptr);
    if (handle != nullptr && ::dlclose(handle) != 0) {
        const char *why = ::dlerror();
        return tl::unexpected(make_error(EINVAL, "dlclose", {}, why != nullptr ? why : ""));
    }
    return {};
}

} // namespace gaudi::thunk
