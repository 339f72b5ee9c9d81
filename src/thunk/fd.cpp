// SPDX-License-Identifier: BSD-3-Clause
#include "fd.h"

#include "os/format.h"
#include "report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

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
        return tl::unexpected(from_minus_one(errno, "fcntl", os::format("{}, F_DUPFD_CLOEXEC", m_fd)));
    return Fd(fd);
}

} // namespace gaudi::thunk
