// SPDX-License-Identifier: BSD-3-Clause
#include "peers.h"

#include "os/system_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softhca {
namespace {

using gaudi::os::system_call;

constexpr size_t kEntries = 64;

} // namespace

bool Peers::alive(uint32_t process) const { return process == m_fabric.self() || m_fabric.alive(process); }

bool Peers::dying(uint32_t process) const {
    if (!alive(process))
        return true;
    char byte = 0;
    const iovec local{&byte, 1}, remote{nullptr, 1};
    const int32_t pid = m_fabric.state().processes.entries[process].pid.load();
    return system_call(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) < 0 && errno == ESRCH;
}

Peers::Entry::Entry(uint32_t key, File file, const MrEntry &region) : m_key(key), m_file(std::move(file)) {
    if (!m_file || region.kernel)
        return; // a kernel's dma-buf is mapped piece by piece, if its exporter allows it at all
    m_begin = region.base % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    m_length = m_begin + region.length;
    void *memory =
        mmap(nullptr, m_length, PROT_READ, MAP_SHARED, m_file.get(), static_cast<off_t>(region.base - m_begin));
    if (memory != MAP_FAILED)
        m_map = static_cast<unsigned char *>(memory);
}

Peers::Entry::~Entry() {
    if (m_map)
        munmap(m_map, m_length);
}

Peers::Import Peers::import(const MrEntry &region, uint32_t key) {
    if (!m_entries.empty() && m_entries.front().key() == key)
        return m_entries.front().import();
    // What was deregistered meanwhile must not be kept.
    m_entries.remove_if([&](const Entry &entry) { // but for the last one: a copy may be at it
        return &entry != &m_entries.front() && m_fabric.state().mrs.find(entry.key()) == nullptr;
    });
    const auto known =
        std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry &entry) { return entry.key() == key; });
    if (known != m_entries.end()) {
        m_entries.splice(m_entries.begin(), m_entries, known);
        return m_entries.front().import();
    }
    const int32_t pid = m_fabric.state().processes.entries[region.process].pid.load();
    // A description of our own where that works: it does not prolong the export. A kernel's dma-buf is only shared.
    File file(open(fmt::format("/proc/{}/fd/{}", pid, region.fd).c_str(), O_RDWR | O_CLOEXEC));
    if (!file && region.process == m_fabric.self())
        file = File(fcntl(region.fd, F_DUPFD_CLOEXEC, 0));
    if (!file) {
        const File process(static_cast<int>(system_call(SYS_pidfd_open, pid, 0)));
        file = File(static_cast<int>(system_call(SYS_pidfd_getfd, process.get(), region.fd, 0)));
    }
    if (!file)
        return {};
    m_entries.emplace_front(key, std::move(file), region);
    if (m_entries.size() > kEntries)
        m_entries.pop_back();
    return m_entries.front().import();
}

} // namespace softhca
