// SPDX-License-Identifier: BSD-3-Clause
#include "peers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace softhca {
namespace {

constexpr size_t kDescriptors = 64;

} // namespace

Peers::Process &Peers::process(uint32_t index) {
    ProcessEntry &entry = m_fabric.state().processes.entries[index];
    Process &known = m_processes[index];
    const uint32_t id = entry.id.load();
    if (known.id != id) {
        known.id = id;
        known.pidfd = File(id != 0 ? static_cast<int>(syscall(SYS_pidfd_open, entry.pid.load(), 0)) : -1);
        // The number may have been given to another process already.
        if (known.pidfd && !Fabric::alive(entry))
            known.pidfd = File();
    }
    return known;
}

bool Peers::alive(uint32_t index) {
    if (index == m_fabric.self())
        return true;
    const Process &peer = process(index);
    if (!peer.pidfd)
        return false;
    pollfd ended{peer.pidfd.get(), POLLIN, 0};
    return poll(&ended, 1, 0) == 0;
}

int Peers::descriptor(const MrEntry &region, uint32_t key) {
    if (region.process == m_fabric.self())
        return region.fd;
    // What was deregistered meanwhile must not be kept.
    m_descriptors.remove_if(
        [&](const Descriptor &entry) { return m_fabric.state().mrs.find(entry.key) == nullptr; });
    const auto known = std::find_if(m_descriptors.begin(), m_descriptors.end(),
                                    [&](const Descriptor &entry) { return entry.key == key; });
    if (known != m_descriptors.end()) {
        m_descriptors.splice(m_descriptors.begin(), m_descriptors, known);
        return m_descriptors.front().file.get();
    }
    const Process &peer = process(region.process);
    if (!peer.pidfd)
        return -1;
    const int32_t pid = m_fabric.state().processes.entries[region.process].pid.load();
    // A description of our own where that works: it does not prolong the export. A kernel's dma-buf is only shared.
    File file(open(fmt::format("/proc/{}/fd/{}", pid, region.fd).c_str(), O_RDWR | O_CLOEXEC));
    if (!file)
        file = File(static_cast<int>(syscall(SYS_pidfd_getfd, peer.pidfd.get(), region.fd, 0)));
    if (!file)
        return -1;
    m_descriptors.push_front({key, std::move(file)});
    if (m_descriptors.size() > kDescriptors)
        m_descriptors.pop_back();
    return m_descriptors.front().file.get();
}

} // namespace softhca
