// SPDX-License-Identifier: BSD-3-Clause
#include "dl_handle.h"

#include "report.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>

namespace gaudi::thunk {

Result<DlHandle> DlHandle::open(const std::string &path) {
    if (path.empty()) // dlopen would open the program itself
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
    return m_handle != nullptr ? ::dlsym(m_handle, name) : nullptr; // dlsym(nullptr) would search all libraries
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
