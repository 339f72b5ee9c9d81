// SPDX-License-Identifier: BSD-3-Clause
#include "peers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softhca {
namespace {

constexpr size_t kDescriptors = 64;

} // namespace

bool Peers::alive(uint32_t process) const { return process == m_fabric.self() || m_fabric.alive(process); }

bool Peers::dying(uint32_t process) const {
    if (!alive(process))
        return true;
    char byte = 0;
    const iovec local{&byte, 1}, remote{nullptr, 1};
    const int32_t pid = m_fabric.state().processes.entries[process].pid.load();
    return syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) < 0 && errno == ESRCH;
}

int Peers::descriptor(const MrEntry &region, uint32_t key) {
    if (region.process == m_fabric.self())
        return region.fd;
    // What was deregistered meanwhile must not be kept.
    m_descriptors.remove_if([&](const Descriptor &entry) { return m_fabric.state().mrs.find(entry.key) == nullptr; });
    const auto known = std::find_if(m_descriptors.begin(), m_descriptors.end(),
                                    [&](const Descriptor &entry) { return entry.key == key; });
    if (known != m_descriptors.end()) {
        m_descriptors.splice(m_descriptors.begin(), m_descriptors, known);
        return m_descriptors.front().file.get();
    }
    const int32_t pid = m_fabric.state().processes.entries[region.process].pid.load();
    // A description of our own where that works: it does not prolong the export. A kernel's dma-buf is only shared.
    File file(open(fmt::format("/proc/{}/fd/{}", pid, region.fd).c_str(), O_RDWR | O_CLOEXEC));
    if (!file) {
        const File process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        file = File(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), region.fd, 0)));
    }
    if (!file)
        return -1;
    m_descriptors.push_front({key, std::move(file)});
    if (m_descriptors.size() > kDescriptors)
        m_descriptors.pop_back();
    return m_descriptors.front().file.get();
}

} // namespace softhca
